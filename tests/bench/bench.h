/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_TESTS_BENCH_H
#define SMC_TESTS_BENCH_H

#include <err.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* What the small programs behind scripts/bench share. They know nothing of the library. */

static inline uint64_t bench_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The number in argv[i], or what stands for it if there is none. */
static inline long bench_number(int argc, char **argv, int i, long otherwise)
{
	char *end;
	long n;

	if (i >= argc)
		return otherwise;
	n = strtol(argv[i], &end, 10);
	if (end == argv[i] || *end || n <= 0)
		errx(2, "%s: not a number above 0", argv[i]);
	return n;
}

static inline int bench_check(int result, const char *what)
{
	if (result < 0)
		err(1, "%s", what);
	return result;
}

#endif
