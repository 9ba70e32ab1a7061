/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stats.h"
#include "preload/raw.h"

#include <criterion/criterion.h>
#include <unistd.h>

static int fd;

static void set_up(void)
{
	raw_fill_sys();
	cr_assert(smc_stats_open(&fd, 42));
}

TestSuite(stats, .init = set_up);

Test(stats, slots_are_distinct_zeroed_and_reused)
{
	struct smc_stats_slot *a = smc_stats_slot_take(), *b = smc_stats_slot_take();

	cr_assert(a && b && a != b);
	a->tx[SMC_CARRIER_SHM] = 5;
	smc_stats_slot_drop(a);
	for (int i = 0; i < 64; i++) {
		struct smc_stats_slot *c = smc_stats_slot_take();
		cr_assert_eq(c->tx[SMC_CARRIER_SHM], 0);
		if (c == a)
			return;
	}
	cr_assert_fail("the slot never came back");
}

Test(stats, closed_connections_are_in_the_totals)
{
	struct smc_stats_slot *a = smc_stats_slot_take(), *b = smc_stats_slot_take();

	a->tx[SMC_CARRIER_SHM] = 5;
	b->rx[SMC_CARRIER_TCP] = 7;
	smc_stats_slot_drop(a);
	smc_stats_slot_drop(b);
	cr_assert_eq(smc_stats_totals()->closed, 2);
	cr_assert_eq(smc_stats_totals()->closed_fast, 1);
	cr_assert_eq(smc_stats_totals()->tx[SMC_CARRIER_SHM], 5);
	cr_assert_eq(smc_stats_totals()->rx[SMC_CARRIER_TCP], 7);
}

Test(stats, beyond_the_page_there_are_no_slots)
{
	for (int i = 0; i < 64 * 1024; i++)
		cr_assert(smc_stats_slot_take(), "slot %d", i);
	cr_assert_null(smc_stats_slot_take());
	cr_assert_eq(smc_stats_totals()->untracked, 1);
}

Test(stats, without_a_page_counting_goes_nowhere)
{
	smc_stats_forked();
	cr_assert_null(smc_stats_slot_take());
	smc_stats_totals()->sleeps++;
}
