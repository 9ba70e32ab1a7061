/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/config.h"

#include <string.h>

struct smc_config smc_config;

bool smc_config_parse_size(const char *text, uint64_t *bytes)
{
	uint64_t n = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
			return false;
	if (p == text)
		return false;
	unsigned shift = 0;
	if (*p == 'k' || *p == 'K')
		shift = 10;
	else if (*p == 'm' || *p == 'M')
		shift = 20;
	if (shift)
		p++;
	if (*p || n > UINT64_MAX >> shift)
		return false;
	*bytes = n << shift;
	return true;
}

uint32_t smc_config_ring_size(uint64_t wish)
{
	uint32_t size = SMC_RING_MIN;

	while (size < wish && size < SMC_RING_MAX)
		size *= 2;
	return size;
}

/* What is common to reading one number: a value out of range is as bad as no number. */
struct number {
	const char *name;
	uint64_t low, high;
};

static bool read_number(const struct number *n, const char *text, uint64_t *value)
{
	uint64_t v;

	if (!smc_config_parse_size(text, &v) || v < n->low || v > n->high)
		return false;
	*value = v;
	return true;
}

void smc_config_load(struct smc_config *config, char *(*get)(const char *name),
		     void (*bad)(const char *name, const char *value))
{
	static const struct number numbers[] = {
		{ "SMC_DEBUG", 0, 2 },
		{ "SMC_SNDBUF", SMC_RING_MIN, SMC_RING_MAX },
		{ "SMC_RCVBUF", SMC_RING_MIN, SMC_RING_MAX },
		{ "SMC_SPIN_US", 0, 1000 },
		{ "SMC_UPGRADE_CALLS", 1, 1000000 },
		{ "SMC_UPGRADE_BYTES", 1, UINT64_MAX },
	};
	enum { N = sizeof(numbers) / sizeof(numbers[0]) };
	uint64_t v[N] = { 0, SMC_RING_DEFAULT, SMC_RING_DEFAULT, 50, 8, 256 * 1024 };
	const char *carrier = get("SMC_CARRIER");
	const char *bad_value[N] = { NULL };

	for (unsigned i = 0; i < N; i++) {
		const char *text = get(numbers[i].name);
		if (text && !read_number(&numbers[i], text, &v[i]))
			bad_value[i] = text;
	}
	*config = (struct smc_config){
		.tcp_only = carrier && !strcmp(carrier, "tcp"),
		.debug = (unsigned)v[0],
		.debug_file = get("SMC_DEBUG_FILE"),
		.sndbuf = smc_config_ring_size(v[1]),
		.rcvbuf = smc_config_ring_size(v[2]),
		.spin_us = (uint32_t)v[3],
		.upgrade_calls = (uint32_t)v[4],
		.upgrade_bytes = v[5],
	};
	if (config->debug_file && !*config->debug_file)
		config->debug_file = NULL;
	if (config->debug_file && !config->debug)
		config->debug = 1;
	if (!bad)
		return;
	for (unsigned i = 0; i < N; i++)
		if (bad_value[i])
			bad(numbers[i].name, bad_value[i]);
	if (carrier && strcmp(carrier, "tcp") && strcmp(carrier, "shm") && strcmp(carrier, "auto"))
		bad("SMC_CARRIER", carrier);
}
