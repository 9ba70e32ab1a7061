/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_UNTIL_H
#define SMC_PRELOAD_UNTIL_H

#include "core/clock.h"

#include <limits.h>
#include <stdbool.h>

/*
 * When a wait ends: an absolute time in ns (CLOCK_MONOTONIC), made once at the start, so that a wait which
 * is gone about in pieces never lasts longer. 0 = it does not wait at all.
 */
typedef uint64_t until_t;
#define UNTIL_FOREVER UINT64_MAX

/* With a rough clock it takes a few nanoseconds less and may end some milliseconds early. */
static inline until_t until_after_ns(uint64_t ns, bool rough)
{
	struct timespec t;
	uint64_t now;

	if (!ns)
		return 0;
	clock_gettime(rough ? CLOCK_MONOTONIC_COARSE : CLOCK_MONOTONIC, &t);
	now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return ns >= UNTIL_FOREVER - now ? UNTIL_FOREVER : now + ns;
}

static inline until_t until_ms(int ms, bool rough)
{
	return ms < 0 ? UNTIL_FOREVER : until_after_ns((uint64_t)ms * 1000000u, rough);
}

/* NULL = for ever. The caller has seen to it that it is valid. */
static inline until_t until_timespec(const struct timespec *t, bool rough)
{
	if (!t || t->tv_sec >= (time_t)(UNTIL_FOREVER / 2000000000u))
		return UNTIL_FOREVER;
	return until_after_ns((uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec, rough);
}

static inline bool until_valid(const struct timespec *t)
{
	return !t || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
}

static inline uint64_t until_left_ns(until_t until)
{
	uint64_t now;

	if (until == 0 || until == UNTIL_FOREVER)
		return until;
	now = smc_now_ns();
	return now >= until ? 0 : until - now;
}

/* Is there no time left? */
static inline bool until_over(until_t until)
{
	return until_left_ns(until) == 0;
}

/* For a call that wants a timespec: what is left, NULL = for ever. */
static inline const struct timespec *until_timeout(until_t until, struct timespec *space)
{
	uint64_t left = until_left_ns(until);

	if (until == UNTIL_FOREVER)
		return NULL;
	space->tv_sec = (time_t)(left / 1000000000u);
	space->tv_nsec = (long)(left % 1000000000u);
	return space;
}

/* For a call that wants milliseconds: what is left, rounded up, -1 = for ever. */
static inline int until_timeout_ms(until_t until)
{
	uint64_t left = until_left_ns(until);

	if (until == UNTIL_FOREVER)
		return -1;
	return left > (uint64_t)INT_MAX * 1000000u ? INT_MAX : (int)((left + 999999) / 1000000);
}

#endif
