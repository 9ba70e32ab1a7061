/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_WAIT_H
#define SMC_CORE_WAIT_H

#include "core/stats.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Look again for a while, then sleep. Sleeping costs the waker a system call and the sleeper a wake-up (2 us on
 * one CPU, 20 us across). Before that there are two ways of looking again, chosen by where the peer was last seen:
 *
 *   spin   on another CPU than ours: looks in a loop. Costs a CPU that somebody else may need.
 *   yield  on our CPU, where a loop would only keep the peer from running: gives the CPU away a few times. When the
 *	    peer runs next and answers, neither end needs to be woken: one system call a turn instead of two.
 *
 * Each way has a score per place of waiting that remembers whether it has been paying off: it goes up slowly with
 * each success, down fast with each failure, and at the bottom one wait in SMC_SPIN_PROBE tries again. A spin
 * that loses its CPU counts heavily: no core is idle. A yield that comes back late gave a time slice to somebody
 * who is not the peer, worth a thousand wake-ups: yielding rests then, each time twice as long.
 */
enum { SMC_SPIN_TOP = 16, SMC_SPIN_START = 8, SMC_SPIN_LOSS = 2, SMC_SPIN_PROBE = 64 };

/* The memory of a place of waiting; zeroed memory is a new one. Hints only: races cost a bad guess. */
struct smc_spin_place {
	_Atomic uint32_t score[2]; /* of spinning, of yielding */
	_Atomic uint32_t rest_ms;  /* how long yielding rested last */
	_Atomic uint32_t yields;   /* good ones since */
	_Atomic uint64_t rest_end; /* no yielding before, CLOCK_MONOTONIC in ns */
};

/* One wait:
 *
 *	if (smc_spin_begin(&spin, place, peer_cpu, limit_ns)) {
 *		do
 *			found = look();
 *		while (!found && smc_spin_on(&spin));
 *		smc_spin_end(&spin, found);
 *	}
 */
struct smc_spin {
	struct smc_spin_place *place;
	bool yields;
	bool lost_cpu; /* it did not run for a while, or got the CPU back late */
	unsigned looks;
	uint64_t start, last, budget;
};

/* Is looking again worth it here? `peer_cpu`: where the other end was last seen (~0u unknown). The time is at most
 * `limit_ns`, and SMC_SPIN_US. */
bool smc_spin_begin(struct smc_spin *spin, struct smc_spin_place *place, unsigned peer_cpu,
		    uint64_t limit_ns);
/* After a look that found nothing: pauses. False: time is up. */
bool smc_spin_on(struct smc_spin *spin);
/* The last look found something, or not. */
void smc_spin_end(struct smc_spin *spin, bool found);

/* After begin: a spin (not a yield) first waits for `ns` without looking, for things to come together. */
void smc_spin_pause(const struct smc_spin *spin, uint64_t ns);

extern struct smc_stats_totals *smc_wait_totals; /* may be NULL */

#endif
