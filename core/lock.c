/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/lock.h"
#include "core/clock.h"
#include "core/sys.h"

#include <errno.h>

/* initial-exec: no allocation on first use, so locks work inside malloc and in signal handlers */
static __thread uint32_t self __attribute__((tls_model("initial-exec")));

uint32_t smc_lock_self(void)
{
	if (__builtin_expect(!self, 0))
		self = (uint32_t)smc_sys.gettid();
	return self;
}

void smc_lock_forget_self(void)
{
	self = 0;
}

void smc_lock_slow(struct smc_lock *lock)
{
	/* Critical sections are well under a microsecond unless the owner lost its CPU. */
	for (int i = 0; i < 100; i++) {
		if (smc_trylock(lock))
			return;
		smc_cpu_relax();
	}
	for (;;) {
		uint32_t word = atomic_load_explicit(&lock->word, memory_order_relaxed);

		if (!(word & ~SMC_LOCK_WAITERS)) {
			if (atomic_compare_exchange_weak_explicit(&lock->word, &word, smc_lock_self() | SMC_LOCK_WAITERS,
								  memory_order_acquire, memory_order_relaxed))
				return;
			continue;
		}
		if (!(word & SMC_LOCK_WAITERS) &&
		    !atomic_compare_exchange_weak_explicit(&lock->word, &word, word | SMC_LOCK_WAITERS,
							   memory_order_relaxed, memory_order_relaxed))
			continue;
		word |= SMC_LOCK_WAITERS;
		const struct timespec patience = { .tv_nsec = 20 * 1000 * 1000 };
		if (smc_sys.futex_wait(&lock->word, word, &patience) != -ETIMEDOUT)
			continue;
		if (smc_sys.alive((int)(word & ~SMC_LOCK_WAITERS)) == -ESRCH &&
		    atomic_compare_exchange_strong_explicit(&lock->word, &word, smc_lock_self() | SMC_LOCK_WAITERS,
							    memory_order_acquire, memory_order_relaxed))
			return;
	}
}

void smc_unlock_slow(struct smc_lock *lock)
{
	atomic_store_explicit(&lock->word, 0, memory_order_release);
	smc_sys.futex_wake(&lock->word, 1);
}
