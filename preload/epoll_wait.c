/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/wait.h"
#include "preload/epoll_merge.h"
#include "preload/latch.h"
#include "preload/link.h"
#include "preload/raw.h"

/*
 * epoll_wait and its kin. A set without attached connections: libc's call, whose result is searched for tags
 * in case a connection attached meanwhile. Otherwise, again and again until there is something or time is up:
 *
 *   gather  the ready list, and the kernel's events when it is their turn
 *   spin    as long as that has been paying off (core/wait.h)
 *   sleep   in the kernel's set, with everything armed and counted as asleep
 *
 * A signal that arrives outside the kernel, in the microseconds of looking or spinning, runs its handler but does
 * not end the call: as one that comes just before the system call.
 */

/* ---- sleeping ---- */

static int kernel_wait(const struct epoll_call *k)
{
	static _Atomic bool no_pwait2;
	struct timespec space;
	const struct timespec *timeout = until_timeout(k->until, &space);

	if (timeout && !atomic_load_explicit(&no_pwait2, memory_order_relaxed)) {
		int r = real.epoll_pwait2(k->epfd, k->events, k->max, timeout, k->mask);
		if (r >= 0 || errno != ENOSYS)
			return r;
		no_pwait2 = true;
	}
	return real.epoll_pwait(k->epfd, k->events, k->max, until_timeout_ms(k->until), k->mask);
}

static struct epset *fall_asleep(struct epset *set)
{
	atomic_fetch_add(&set->waiting, 1);
	epset_asleep_in = set;
	link_asleep();
	return set;
}

/* Also when the thread is cancelled in the kernel. */
static void wake_up(struct epset **set)
{
	link_awake();
	epset_asleep_in = NULL;
	atomic_fetch_sub(&(*set)->waiting, 1);
}

static int sleep_in_kernel(struct epoll_call *k)
{
	struct epset *set = k->set;

	smc_lock(&set->lock);
	bool bells = !set->forked && epset_put_bells(set);
	smc_unlock(&set->lock);
	if (bells) {
		if (smc_wait_totals)
			atomic_fetch_add_explicit(&smc_wait_totals->sleeps, 1, memory_order_relaxed);
		return kernel_wait(k);
	}
	struct pollfd p[2] = { { .fd = k->epfd, .events = POLLIN } };
	int r = latch_sleep(p, 1, k->until, k->mask);
	return r > 0 ? real.epoll_wait(k->epfd, k->events, k->max, 0) : r;
}

/* See epset_wake for why no wake-up is lost. As epoll_wait; *tags as epset_translate. */
static int sleep_on(struct epoll_call *k, bool *tags)
{
	__attribute__((cleanup(wake_up))) struct epset *set = fall_asleep(k->set);
	int n;

	epoll_look_around(set);
	if ((n = epset_collect(set, k->events, k->max, LOOK_ARM)))
		return n;
	n = sleep_in_kernel(k);
	return n > 0 ? epset_translate(set, k->events, n, tags) : n;
}

/* libc's very call. */
static inline int original_wait(const struct epoll_call *k)
{
	switch (k->how) {
	case BY_EPOLL_WAIT:
		return real.epoll_wait(k->epfd, k->events, k->max, k->timeout_ms);
	case BY_EPOLL_PWAIT:
		return real.epoll_pwait(k->epfd, k->events, k->max, k->timeout_ms, k->mask);
	default:
		return real.epoll_pwait2(k->epfd, k->events, k->max, k->timeout, k->mask);
	}
}

/* The kernel had `n` for a thread that waited in the plain way; returns what is the application's. */
static int came_out(struct epoll_call *k, int n)
{
	bool tags = false;

	n = epset_translate(k->set, k->events, n, &tags);
	if (__builtin_expect(tags, 0))
		epset_fetched(k->set);
	return n;
}

/* Nothing of the set is ours: *over says whether the result is final. Our reference to the set was taken before the
 * look at whether it is (epset_fetch). */
static int wait_plain(struct epoll_call *k, bool *over)
{
	int n = k->begun ? kernel_wait(k) : original_wait(k);

	k->begun = true;
	*over = n <= 0;
	if (n <= 0)
		return n;
	n = came_out(k, n);
	*over = n > 0;
	return n;
}

static int wait_for_events(struct epoll_call *k)
{
	bool over = false, tags;
	int n;

	for (;;) {
		if (!epset_special(k->set)) {
			n = wait_plain(k, &over);
			if (over)
				return n;
			if (until_over(k->until) && !epset_special(k->set))
				return 0;
			continue;
		}
		k->begun = true;
		if ((n = epoll_gather(k)) || until_over(k->until))
			return n;
		if ((n = epoll_spin(k)))
			return n;
		if ((n = sleep_on(k, &tags)))
			return n;
	}
}

/* After a plain wait that began before the set got something of ours. */
static __attribute__((noinline)) int go_on(struct epoll_call *k, int n)
{
	int saved = errno;

	n = came_out(k, n);
	k->begun = true;
	if (!n && !until_over(k->until))
		n = wait_for_events(k);
	if (n >= 0)
		errno = saved;
	return n;
}

/* ---- what the application calls ---- */

/* NULL: not a set we know, or a fault that the kernel finds: libc's call is all there is. Sets without any TCP
 * socket come here too: one may be added while this thread sleeps. */
static inline struct epset *set_of(int epfd, int max)
{
	struct fd_object *o = fdtable_get(epfd);

	if (__builtin_expect(!o || o->type != FD_EPOLL || max <= 0 || max > INT_MAX / (int)sizeof(struct epoll_event), 0))
		return NULL;
	return epset_get(epfd);
}

/* Never had a TCP socket, nor a set inside. */
static inline bool untouched(const struct epset *set)
{
	return !set->touched && !set->ninner;
}

/* An untouched set is unlikely to get something of ours during this call: a rough clock will do for that. */
static until_t end_of(const struct epoll_call *k, bool rough)
{
	if (k->how == BY_EPOLL_PWAIT2)
		return until_timespec(k->timeout, rough);
	return until_ms(k->timeout_ms, rough);
}

static __attribute__((noinline)) int wait_in(struct epoll_call *k)
{
	bool fault = (uintptr_t)k->events < 4096; /* found when there is something to write there */
	struct epoll_event nowhere;
	int saved = errno;

	if (fault) {
		k->events = &nowhere;
		k->max = 1;
	}
	k->until = end_of(k, false);
	int n = wait_for_events(k);
	if (n > 0 && fault) {
		errno = EFAULT;
		return -1;
	}
	if (n >= 0)
		errno = saved;
	return n;
}

/* Also when the thread is cancelled. */
static inline void let_go(struct epset **set)
{
	epset_put(*set);
}

/* Nobody can put anything into this set while its only thread waits in it (glibc before 2.32 does not say). */
extern char __libc_single_threaded __attribute__((weak));

static inline bool no_concern(int epfd)
{
	struct fd_object *o = fdtable_get(epfd);

	if (!o || (o->type == FD_EPOLL && untouched((struct epset *)o) && &__libc_single_threaded && __libc_single_threaded))
		return true;
	return o->type != FD_EPOLL && o->type != FD_INTERNAL;
}

static inline int wait_with(struct epset *held, enum how how, int epfd, struct epoll_event *events, int max, int timeout_ms,
			    const struct timespec *timeout, const sigset_t *mask)
{
	__attribute__((cleanup(let_go))) struct epset *set = held;
	struct epoll_call k = { how, epfd, events, max, timeout_ms, timeout, mask, .set = set };

	if (__builtin_expect(!untouched(set), 0))
		return wait_in(&k);
	k.until = end_of(&k, true);
	int n = original_wait(&k);
	if (__builtin_expect(n <= 0 || untouched(set), 1))
		return n;
	return go_on(&k, n);
}

static int bad_epfd(void)
{
	errno = EBADF;
	return -1;
}

SMC_EXPORT int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	struct epset *set;

	if (__builtin_expect(no_concern(epfd), 1) || !(set = set_of(epfd, max)))
		return fdtable_is_internal(epfd) ? bad_epfd() : real.epoll_wait(epfd, events, max, timeout);
	return wait_with(set, BY_EPOLL_WAIT, epfd, events, max, timeout, NULL, NULL);
}

SMC_EXPORT int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
	struct epset *set;

	if (__builtin_expect(no_concern(epfd), 1) || !(set = set_of(epfd, max)))
		return fdtable_is_internal(epfd) ? bad_epfd() : real.epoll_pwait(epfd, events, max, timeout, mask);
	return wait_with(set, BY_EPOLL_PWAIT, epfd, events, max, timeout, NULL, mask);
}

SMC_EXPORT int epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
			    const sigset_t *mask)
{
	struct epset *set;

	if (__builtin_expect(no_concern(epfd), 1) || !until_valid(timeout) || !(set = set_of(epfd, max)))
		return fdtable_is_internal(epfd) ? bad_epfd() : real.epoll_pwait2(epfd, events, max, timeout, mask);
	return wait_with(set, BY_EPOLL_PWAIT2, epfd, events, max, 0, timeout, mask);
}
