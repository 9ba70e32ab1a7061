/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_LOCK_H
#define SMC_CORE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A lock for state that forked processes share: a futex word holding the owner's thread id, with a bit
 * for "somebody waits". A waiter that sees no progress asks the kernel whether the owner still lives and
 * takes the lock over from a dead one, so a kill -9 in a critical section costs a pause, never a hang.
 * All bits zero is unlocked. Held only for short, bounded work; never while sleeping.
 *
 * Lock order (a thread that holds a later one never takes an earlier one):
 * table of descriptors, service, connection, epoll set, stream rx, stream tx, pool, arena.
 */
struct smc_lock {
	_Atomic uint32_t word;
};

#define SMC_LOCK_WAITERS 0x80000000u

uint32_t smc_lock_self(void);	 /* this thread's id, cached */
void smc_lock_forget_self(void); /* in a forked child: ids changed */
void smc_lock_slow(struct smc_lock *lock);
void smc_unlock_slow(struct smc_lock *lock);

static inline bool smc_trylock(struct smc_lock *lock)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &none, smc_lock_self(),
						       memory_order_acquire, memory_order_relaxed);
}

static inline void smc_lock(struct smc_lock *lock)
{
	if (!smc_trylock(lock))
		smc_lock_slow(lock);
}

static inline void smc_unlock(struct smc_lock *lock)
{
	uint32_t self = smc_lock_self();

	if (!atomic_compare_exchange_strong_explicit(&lock->word, &self, 0, memory_order_release,
						     memory_order_relaxed))
		smc_unlock_slow(lock);
}

/*
 * The same for sections that take as long as copying many bytes, which signal handlers do interrupt: one that
 * comes for the lock that its own thread holds further down the stack is told so, and must do without. A thread that left
 * by longjmp gets the lock again, for the frame that held it is gone.
 */
struct smc_guarded_lock {
	struct smc_lock lock;
	_Atomic uintptr_t holder; /* the owner's guard */
};

/* On the stack of whoever holds the lock. */
struct smc_guard {
	volatile uintptr_t seal;
};

bool smc_enter_slow(struct smc_guarded_lock *lock, struct smc_guard *guard);

/* False: this thread is inside already. */
static inline bool smc_enter(struct smc_guarded_lock *lock, struct smc_guard *guard)
{
	if (!smc_trylock(&lock->lock) && !smc_enter_slow(lock, guard))
		return false;
	guard->seal = (uintptr_t)guard ^ (uintptr_t)lock;
	atomic_store_explicit(&lock->holder, (uintptr_t)guard, memory_order_relaxed);
	return true;
}

static inline void smc_leave(struct smc_guarded_lock *lock, struct smc_guard *guard)
{
	guard->seal = 0;
	smc_unlock(&lock->lock);
}

/* In a forked child, for process-private locks: whoever held it does not exist here. */
static inline void smc_lock_reset(struct smc_lock *lock)
{
	atomic_store_explicit(&lock->word, 0, memory_order_relaxed);
}

#endif
