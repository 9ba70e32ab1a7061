/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/config.h"
#include "core/cpu.h"
#include "core/wait.h"

#include <criterion/criterion.h>

static unsigned looks;

static bool never(void *context)
{
	(void)context;
	looks++;
	return false;
}

static bool always(void *context)
{
	(void)context;
	return true;
}

static void set_up(void)
{
	smc_config.spin_us = 20;
}

TestSuite(wait, .init = set_up);

Test(wait, spinning_in_vain_stops_and_is_tried_again_now_and_then)
{
	_Atomic uint32_t score = 0;
	unsigned spins = 0;

	for (int i = 0; i < 20; i++)
		smc_spin(&score, ~0u, never, NULL);
	for (int i = 0; i < 640; i++) {
		looks = 0;
		smc_spin(&score, ~0u, never, NULL);
		spins += looks != 0;
	}
	cr_assert_geq(spins, 5);
	cr_assert_leq(spins, 20);
}

Test(wait, success_brings_it_back)
{
	_Atomic uint32_t score = 0;

	for (int i = 0; i < 20; i++)
		smc_spin(&score, ~0u, never, NULL);
	for (int i = 0; i < 2 * SMC_SPIN_PROBE; i++)
		smc_spin(&score, ~0u, always, NULL);
	for (int i = 0; i < 50; i++)
		cr_assert(smc_spin(&score, ~0u, always, NULL));
}

Test(wait, nobody_spins_on_the_cpu_of_the_peer)
{
	_Atomic uint32_t score = 0;

	for (int i = 0; i < 100; i++)
		if (!smc_spin_worth(&score, smc_cpu()))
			return; /* once is enough: the scheduler may move us in between */
	cr_assert_fail("spun on the peer's CPU a hundred times");
}

Test(wait, a_budget_of_zero_never_spins)
{
	_Atomic uint32_t score = 0;

	smc_config.spin_us = 0;
	cr_assert_not(smc_spin(&score, ~0u, always, NULL));
}
