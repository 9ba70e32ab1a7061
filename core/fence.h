/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_FENCE_H
#define SMC_CORE_FENCE_H

#include <stdatomic.h>

/*
 * A full fence: a store before it is seen by others before a load after it is made. Every sleeper and its waker
 * have one between "say so" and "look". ThreadSanitizer does not know fences; there an atomic exchange of one
 * common word, which orders as much, stands in.
 */
static inline void smc_full_fence(void)
{
#ifdef __SANITIZE_THREAD__
	static _Atomic int word;

	atomic_exchange(&word, 0);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
