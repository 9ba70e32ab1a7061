/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_WAIT_H
#define SMC_CORE_WAIT_H

#include "core/stats.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Spin, then sleep. Sleeping costs the waker a system call and the sleeper a wake-up (2 us on one CPU, 20 us
 * across); spinning costs a CPU that somebody else may need. A score per place of waiting remembers whether
 * spinning has been paying off: it goes up slowly with each spin that ended in success, down fast with each
 * that was in vain, and at the bottom one wait in SMC_SPIN_PROBE tries again. Nobody spins when the peer was
 * last seen on this very CPU.
 */
enum { SMC_SPIN_TOP = 16, SMC_SPIN_START = 8, SMC_SPIN_LOSS = 2, SMC_SPIN_PROBE = 64 };

/* Spins for up to the budget until `ready(context)`; true if it was. `score` is the memory of this place (0 =
 * new), `peer_cpu` where the other end was last seen (~0u unknown). */
bool smc_spin(_Atomic uint32_t *score, unsigned peer_cpu, bool (*ready)(void *context), void *context);

/* Would smc_spin spin at all? Decides without spinning, and counts as a try. */
bool smc_spin_worth(_Atomic uint32_t *score, unsigned peer_cpu);
/* The result of a spin that the caller did itself. `preempted`: the loop lost its CPU, nobody else is idle. */
void smc_spin_result(_Atomic uint32_t *score, bool won, bool preempted);

/* How long to spin at most, in nanoseconds; 0 = never. */
uint64_t smc_spin_budget_ns(void);

extern struct smc_stats_totals *smc_wait_totals; /* may be NULL */

#endif
