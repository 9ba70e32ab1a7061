/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clock.h"
#include "core/config.h"
#include "core/cpu.h"
#include "core/wait.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <time.h>

/* The peer's CPU that no CPU has: so a wait here spins. */
#define ELSEWHERE (~0u)

static void set_up(void)
{
	smc_config.spin_us = 20;
}

TestSuite(wait, .init = set_up);

/* So that the CPU does not change between two looks at it. */
static void stay_here(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* One wait in which look number `found_at` finds something (0 = none does); returns the number of looks. */
static unsigned wait_for(struct smc_spin_place *place, unsigned peer_cpu, unsigned found_at)
{
	struct smc_spin spin;
	unsigned looks = 0;

	if (!smc_spin_begin(&spin, place, peer_cpu, UINT64_MAX))
		return 0;
	do
		looks++;
	while (looks != found_at && smc_spin_on(&spin));
	smc_spin_end(&spin, looks == found_at);
	return looks;
}

/* A wait on the peer's CPU during which the thread did not get it back for `ms`. */
static bool yield_late(struct smc_spin_place *place, long ms, bool found)
{
	struct smc_spin spin;

	if (!smc_spin_begin(&spin, place, smc_cpu(), UINT64_MAX))
		return false;
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
	while (smc_spin_on(&spin) && !found)
		continue;
	smc_spin_end(&spin, found);
	return true;
}

static void check_in_vain(unsigned peer_cpu)
{
	struct smc_spin_place place = { 0 };
	unsigned tries = 0;

	for (int i = 0; i < 20; i++)
		wait_for(&place, peer_cpu, 0);
	for (int i = 0; i < 640; i++)
		tries += wait_for(&place, peer_cpu, 0) != 0;
	cr_assert_geq(tries, 5);
	cr_assert_leq(tries, 20);
}

static void check_success(unsigned peer_cpu)
{
	struct smc_spin_place place = { 0 };

	for (int i = 0; i < 20; i++)
		wait_for(&place, peer_cpu, 0);
	for (int i = 0; i < 2 * SMC_SPIN_PROBE; i++)
		wait_for(&place, peer_cpu, 1);
	for (int i = 0; i < 50; i++)
		cr_assert_eq(wait_for(&place, peer_cpu, 1), 1);
}

Test(wait, spinning_in_vain_stops_and_is_tried_again_now_and_then)
{
	check_in_vain(ELSEWHERE);
}

Test(wait, success_brings_it_back)
{
	check_success(ELSEWHERE);
}

Test(wait, a_spin_lasts_as_long_as_the_budget)
{
	struct smc_spin_place place = { 0 };
	uint64_t start = smc_now_ns();

	cr_assert_gt(wait_for(&place, ELSEWHERE, 0), 16);
	cr_assert_lt(smc_now_ns() - start, 20000000, "1000 times the budget");
}

Test(wait, on_the_cpu_of_the_peer_it_yields_a_few_times)
{
	struct smc_spin_place place = { 0 };

	stay_here();
	cr_assert_leq(wait_for(&place, smc_cpu(), 0), 5);
	memset(&place, 0, sizeof(place));
	cr_assert_eq(wait_for(&place, smc_cpu(), 2), 2);
}

/* Alone on the CPU or not: a yield in vain may also come back late and rest. Both stop it. */
Test(wait, the_two_ways_have_scores_of_their_own)
{
	struct smc_spin_place place = { 0 };

	stay_here();
	for (int i = 0; i < 20; i++)
		wait_for(&place, smc_cpu(), 0);
	cr_assert_eq(wait_for(&place, ELSEWHERE, 1), 1);
}

Test(wait, a_yield_that_comes_back_late_makes_it_rest_longer_each_time)
{
	struct smc_spin_place place = { 0 };

	stay_here();
	for (int i = 0; i < 3; i++) {
		uint32_t before = place.rest_ms;
		cr_assert(yield_late(&place, 1, false));
		cr_assert_gt(place.rest_ms, before);
		cr_assert_not(yield_late(&place, 1, false), "yielded while it was to rest");
		place.rest_end = 1; /* long ago */
	}
}

Test(wait, a_slice_of_somebody_else_counts_even_when_the_peer_ran_too)
{
	struct smc_spin_place place = { 0 };

	stay_here();
	cr_assert(yield_late(&place, 2, true));
	cr_assert_neq(place.rest_end, 0);
}

Test(wait, many_good_yields_end_the_memory_of_a_bad_one)
{
	struct smc_spin_place place = { .rest_ms = 400, .rest_end = 1 };

	stay_here();
	for (int i = 0; i < 20000 && place.rest_ms; i++)
		wait_for(&place, smc_cpu(), 1);
	cr_assert_eq(place.rest_ms, 0);
}

Test(wait, a_budget_of_zero_never_looks_again)
{
	struct smc_spin_place place = { 0 };

	smc_config.spin_us = 0;
	stay_here();
	cr_assert_eq(wait_for(&place, ELSEWHERE, 1), 0);
	cr_assert_eq(wait_for(&place, smc_cpu(), 1), 0);
}

Test(wait, no_time_left_means_no_look)
{
	struct smc_spin_place place = { 0 };
	struct smc_spin spin;

	cr_assert_not(smc_spin_begin(&spin, &place, ELSEWHERE, 0));
}
