/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_RAW_H
#define SMC_PRELOAD_RAW_H

#include <sys/syscall.h>

#include "preload/real.h"

#include <errno.h>

/*
 * System calls that no preload sees, that are no cancellation points and that leave errno alone:
 * >= 0 or a negative errno.
 */
#if defined(__x86_64__)
static inline long raw_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#else
static inline long raw_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	int saved = errno;
	long r = real.syscall(nr, a, b, c, d, e, f);

	if (r == -1)
		r = -errno;
	errno = saved;
	return r;
}
#endif

#define raw_call3(nr, a, b, c) raw_call6(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define raw_call4(nr, a, b, c, d) raw_call6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define raw_call5(nr, a, b, c, d, e) raw_call6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

/* Fills smc_sys with raw calls. */
void raw_fill_sys(void);

/* At the edge to the application: a negative errno becomes -1 and errno. */
static inline long raw_result(long r)
{
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

#endif
