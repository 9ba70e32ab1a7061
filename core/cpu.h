/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_CPU_H
#define SMC_CORE_CPU_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The CPU this thread runs on, as a hint. glibc 2.35 and later register a restartable-sequences area whose
 * second word the kernel keeps at the current CPU: one load. Elsewhere the vDSO answers.
 */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static inline unsigned smc_cpu(void)
{
	if (&__rseq_offset && &__rseq_size && __rseq_size) {
		const volatile int32_t *area =
			(const volatile int32_t *)((char *)__builtin_thread_pointer() + __rseq_offset);
		if (area[1] >= 0)
			return (unsigned)area[1];
	}
	return (unsigned)sched_getcpu();
}

#endif
