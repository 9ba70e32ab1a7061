/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/wait.h"
#include "core/clock.h"
#include "core/config.h"
#include "core/cpu.h"

struct smc_stats_totals *smc_wait_totals;

/* A pause between two looks that is longer than this means that the thread did not run. */
#define PREEMPTED_NS 30000u

uint64_t smc_spin_budget_ns(void)
{
	return smc_config.spin_us * UINT64_C(1000);
}

/* The stored score is off by one, so that zeroed memory means SMC_SPIN_START; above it, a count of skipped
 * waits while at the bottom. */
static uint32_t get(_Atomic uint32_t *score)
{
	uint32_t raw = atomic_load_explicit(score, memory_order_relaxed);

	return raw ? raw - 1 : SMC_SPIN_START;
}

static void set(_Atomic uint32_t *score, uint32_t value)
{
	atomic_store_explicit(score, value + 1, memory_order_relaxed);
}

bool smc_spin_worth(_Atomic uint32_t *score, unsigned peer_cpu)
{
	uint32_t s = get(score);

	if (!smc_spin_budget_ns() || smc_cpu() == peer_cpu)
		return false;
	if (s && s <= SMC_SPIN_TOP)
		return true;
	/* at the bottom: count the waits above the top */
	s = s ? s + 1 : SMC_SPIN_TOP + 1;
	if (s < SMC_SPIN_TOP + SMC_SPIN_PROBE) {
		set(score, s);
		return false;
	}
	set(score, 1);
	return true;
}

void smc_spin_result(_Atomic uint32_t *score, bool won, bool preempted)
{
	uint32_t s = get(score);

	if (s > SMC_SPIN_TOP)
		return;
	if (preempted)
		s = s > 2 * SMC_SPIN_LOSS ? s - 2 * SMC_SPIN_LOSS : 0;
	else if (won)
		s = s < SMC_SPIN_TOP ? s + 1 : s;
	else
		s = s > SMC_SPIN_LOSS ? s - SMC_SPIN_LOSS : 0;
	set(score, s);
	if (smc_wait_totals)
		atomic_fetch_add_explicit(won ? &smc_wait_totals->spins_won : &smc_wait_totals->spins_lost, 1,
					  memory_order_relaxed);
}

bool smc_spin(_Atomic uint32_t *score, unsigned peer_cpu, bool (*ready)(void *context), void *context)
{
	if (!smc_spin_worth(score, peer_cpu))
		return false;
	uint64_t start = smc_now_ns(), last = start, budget = smc_spin_budget_ns();
	bool preempted = false, won = false;

	do {
		for (int i = 0; i < 16 && !won; i++) {
			won = ready(context);
			smc_cpu_relax();
		}
		uint64_t now = smc_now_ns();
		preempted |= now - last > PREEMPTED_NS;
		last = now;
	} while (!won && last - start < budget && !preempted);
	smc_spin_result(score, won, preempted && !won);
	return won;
}
