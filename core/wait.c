/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/wait.h"
#include "core/clock.h"
#include "core/config.h"
#include "core/cpu.h"

#include <sched.h>

struct smc_stats_totals *smc_wait_totals;

/* A pause between two looks that is longer than this means that the thread did not run. */
#define PREEMPTED_NS 30000u
/* The peer may have worked for this long on its answer; longer is a time slice of somebody else. */
#define SLICE_NS 500000u

enum {
	LOOKS = 16,	    /* in a spin, between two looks at the clock */
	YIELDS = 3,	    /* per wait */
	REST_MS_LEAST = 50, /* a time slice is about 3 ms */
	REST_MS_MOST = 4000,
	REST_FORGOTTEN = 1000, /* good yields after which a rest is as if it had not been */
};

enum way { SPIN, YIELD };

static uint64_t budget_ns(void)
{
	return smc_config.spin_us * UINT64_C(1000);
}

/* The stored score is off by one, so that zeroed memory means SMC_SPIN_START; above the top, a count of skipped
 * waits while at the bottom. */
static uint32_t get(const _Atomic uint32_t *score)
{
	uint32_t raw = atomic_load_explicit(score, memory_order_relaxed);

	return raw ? raw - 1 : SMC_SPIN_START;
}

static void set(_Atomic uint32_t *score, uint32_t value)
{
	atomic_store_explicit(score, value + 1, memory_order_relaxed);
}

static bool worth(_Atomic uint32_t *score)
{
	uint32_t s = get(score);

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

static void judge(_Atomic uint32_t *score, bool won, bool heavily)
{
	uint32_t s = get(score), loss = heavily ? 2 * SMC_SPIN_LOSS : SMC_SPIN_LOSS;

	if (s > SMC_SPIN_TOP)
		return;
	if (won)
		s = s < SMC_SPIN_TOP ? s + 1 : s;
	else
		s = s > loss ? s - loss : 0;
	set(score, s);
}

/* ---- yielding rests after it went wrong ---- */

static bool resting(struct smc_spin_place *place)
{
	uint64_t end = atomic_load_explicit(&place->rest_end, memory_order_relaxed);

	return end && smc_now_ns() < end;
}

static void rest(struct smc_spin_place *place, uint64_t now)
{
	uint32_t ms = atomic_load_explicit(&place->rest_ms, memory_order_relaxed);

	ms = !ms ? REST_MS_LEAST : ms < REST_MS_MOST ? 2 * ms : ms;
	atomic_store_explicit(&place->rest_ms, ms, memory_order_relaxed);
	atomic_store_explicit(&place->yields, 0, memory_order_relaxed);
	atomic_store_explicit(&place->rest_end, now + ms * UINT64_C(1000000), memory_order_relaxed);
}

static void yielded_well(struct smc_spin_place *place)
{
	uint32_t n = atomic_load_explicit(&place->yields, memory_order_relaxed);

	if (!atomic_load_explicit(&place->rest_end, memory_order_relaxed))
		return;
	atomic_store_explicit(&place->yields, n + 1, memory_order_relaxed);
	if (n < REST_FORGOTTEN)
		return;
	atomic_store_explicit(&place->rest_ms, 0, memory_order_relaxed);
	atomic_store_explicit(&place->rest_end, 0, memory_order_relaxed);
}

/* ---- one wait ---- */

bool smc_spin_begin(struct smc_spin *spin, struct smc_spin_place *place, unsigned peer_cpu,
		    uint64_t limit_ns)
{
	uint64_t budget = budget_ns();
	bool yields;

	if (!budget || !limit_ns)
		return false;
	yields = smc_cpu() == peer_cpu;
	if ((yields && resting(place)) || !worth(&place->score[yields ? YIELD : SPIN]))
		return false;
	*spin = (struct smc_spin){ .place = place,
				   .yields = yields,
				   .budget = budget < limit_ns ? budget : limit_ns };
	spin->start = spin->last = smc_now_ns();
	return true;
}

/* True: this took longer than `most`, since the last look at the clock. */
static bool took_longer(struct smc_spin *spin, uint64_t most)
{
	uint64_t now = smc_now_ns(), before = spin->last;

	spin->last = now;
	return now - before > most;
}

bool smc_spin_on(struct smc_spin *spin)
{
	if (spin->yields) {
		if (spin->lost_cpu || spin->looks++ == YIELDS)
			return false;
		sched_yield();
		/* one more look: perhaps it was the peer that ran */
		spin->lost_cpu = took_longer(spin, PREEMPTED_NS);
		return true;
	}
	smc_cpu_relax();
	if (++spin->looks % LOOKS)
		return true;
	spin->lost_cpu = took_longer(spin, PREEMPTED_NS);
	return !spin->lost_cpu && spin->last - spin->start < spin->budget;
}

void smc_spin_end(struct smc_spin *spin, bool found)
{
	if (!spin->yields)
		judge(&spin->place->score[SPIN], found, spin->lost_cpu);
	else if (spin->lost_cpu && (!found || spin->last - spin->start > SLICE_NS))
		rest(spin->place, spin->last);
	else {
		judge(&spin->place->score[YIELD], found, false);
		if (found)
			yielded_well(spin->place);
	}
	if (smc_wait_totals)
		atomic_fetch_add_explicit(found ? &smc_wait_totals->spins_won
						: &smc_wait_totals->spins_lost,
					  1, memory_order_relaxed);
}

void smc_spin_pause(const struct smc_spin *spin, uint64_t ns)
{
	if (spin->yields)
		return;
	for (uint64_t end = spin->start + ns; smc_now_ns() < end;)
		for (int i = 0; i < LOOKS; i++)
			smc_cpu_relax();
}
