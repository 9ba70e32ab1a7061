/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/config.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *names[4], *values[4];
static unsigned complaints;

static char *get(const char *name)
{
	for (int i = 0; i < 4 && names[i]; i++)
		if (!strcmp(names[i], name))
			return (char *)values[i];
	return NULL;
}

static void bad(const char *name, const char *value)
{
	(void)name;
	(void)value;
	complaints++;
}

static struct smc_config load(const char *name, const char *value)
{
	struct smc_config c;

	names[0] = name;
	values[0] = value;
	complaints = 0;
	smc_config_load(&c, get, bad);
	return c;
}

Test(config, defaults)
{
	struct smc_config c = load(NULL, NULL);

	cr_assert_not(c.tcp_only);
	cr_assert_eq(c.sndbuf, SMC_RING_DEFAULT);
	cr_assert_eq(c.spin_us, 50);
	cr_assert_eq(c.upgrade_calls, 8);
	cr_assert_eq(complaints, 0);
}

Test(config, sizes_take_suffixes_and_round_up)
{
	cr_assert_eq(load("SMC_RCVBUF", "100K").rcvbuf, 128 * 1024);
	cr_assert_eq(load("SMC_SNDBUF", "1m").sndbuf, 1024 * 1024);
}

Test(config, a_bad_value_is_told_once_and_the_default_stays)
{
	static const char *const wrong[] = { "", "x", "-1", "1000001", "5 ", "1G", "99999999999999999999" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(load("SMC_UPGRADE_CALLS", wrong[i]).upgrade_calls, 8, "%s", wrong[i]);
		cr_assert_eq(complaints, 1, "%s", wrong[i]);
	}
	load("SMC_CARRIER", "pigeon");
	cr_assert_eq(complaints, 1);
}

Test(config, carrier_tcp)
{
	cr_assert(load("SMC_CARRIER", "tcp").tcp_only);
	cr_assert_not(load("SMC_CARRIER", "auto").tcp_only);
}

Test(config, a_debug_file_turns_debugging_on)
{
	cr_assert_eq(load("SMC_DEBUG_FILE", "/tmp/x").debug, 1);
	cr_assert_null(load("SMC_DEBUG_FILE", "").debug_file);
}
