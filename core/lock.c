/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/lock.h"
#include "core/clock.h"
#include "core/sys.h"

#include <errno.h>
#include <signal.h>

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
			if (atomic_compare_exchange_weak_explicit(
				    &lock->word, &word, smc_lock_self() | SMC_LOCK_WAITERS,
				    memory_order_acquire, memory_order_relaxed))
				return;
			continue;
		}
		if (!(word & SMC_LOCK_WAITERS) &&
		    !atomic_compare_exchange_weak_explicit(
			    &lock->word, &word, word | SMC_LOCK_WAITERS, memory_order_relaxed,
			    memory_order_relaxed))
			continue;
		word |= SMC_LOCK_WAITERS;
		const struct timespec patience = { .tv_nsec = 20 * 1000 * 1000 };
		if (smc_sys.futex_wait(&lock->word, word, &patience) != -ETIMEDOUT)
			continue;
		if (smc_sys.alive((int)(word & ~SMC_LOCK_WAITERS)) == -ESRCH &&
		    atomic_compare_exchange_strong_explicit(
			    &lock->word, &word, smc_lock_self() | SMC_LOCK_WAITERS,
			    memory_order_acquire, memory_order_relaxed))
			return;
	}
}

void smc_unlock_slow(struct smc_lock *lock)
{
	atomic_store_explicit(&lock->word, 0, memory_order_release);
	smc_sys.futex_wake(&lock->word, 1);
}

static bool on_signal_stack(void)
{
	stack_t stack;

	return !sigaltstack(NULL, &stack) && (stack.ss_flags & SS_ONSTACK);
}

/* With the lock held by this thread: is the frame that took it still there? Stacks grow downwards; one that longjmp
 * left may be covered by deeper calls by now, which wrote over the seal. */
static bool holder_lives(const struct smc_guarded_lock *lock, const struct smc_guard *guard)
{
	const struct smc_guard *holder =
		(const struct smc_guard *)atomic_load_explicit(&lock->holder, memory_order_relaxed);

	if (on_signal_stack())
		return true;
	return (uintptr_t)guard < (uintptr_t)holder &&
	       holder->seal == ((uintptr_t)holder ^ (uintptr_t)lock);
}

bool smc_enter_slow(struct smc_guarded_lock *lock, struct smc_guard *guard)
{
	uint32_t owner =
		atomic_load_explicit(&lock->lock.word, memory_order_relaxed) & ~SMC_LOCK_WAITERS;

	if (owner == smc_lock_self())
		return !holder_lives(lock, guard);
	smc_lock_slow(&lock->lock);
	return true;
}
