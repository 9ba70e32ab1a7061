/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/wait.h"
#include "preload/epset.h"
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

/* While the ready list delivers, the kernel is asked after so long, or so many calls; the long time is for sets
 * where it had nothing to tell the last ASK_IN_VAIN times. */
enum { ASK_NS = 2000, ASK_NS_LONG = 20000, ASK_IN_VAIN = 64, ASK_CALLS = 16, ASK_NS_SPINNING = 5000 };
/* How often at once, when the library's own entries take the place of the application's in the answer. */
enum { ASK_AGAIN = 16 };
/* A pause between two looks that is longer means that the thread did not run (as in core/wait.c). */
enum { PREEMPTED_NS = 30000 };

enum how { BY_EPOLL_WAIT, BY_EPOLL_PWAIT, BY_EPOLL_PWAIT2 };

struct call {
	/* what the application said */
	enum how how;
	int epfd;
	struct epoll_event *events;
	int max;
	int timeout_ms;
	const struct timespec *timeout;
	const sigset_t *mask;

	struct epset *set;
	until_t until;
	bool begun; /* some of the time is over */
};

/* ---- the kernel's side ---- */

static int kernel_wait(const struct call *k)
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

/* Bells are in this set, but nothing of it is ours any more: it would be woken for nothing. */
static void heard_bell(struct epset *set)
{
	if (link_attention())
		link_harvest();
	if (!epset_special(set))
		epset_remove_bells(set);
}

int epset_translate(struct epset *set, struct epoll_event *events, int n, bool *tags)
{
	bool bell = false;
	int kept = 0;

	if (!__atomic_load_n(&eptag_prefix, __ATOMIC_ACQUIRE))
		return n;
	for (int i = 0; i < n; i++) {
		uint64_t data = events[i].data.u64;
		struct epreg *reg;

		if (__builtin_expect(!eptag_is(data), 1)) {
			events[kept++] = events[i];
			continue;
		}
		*tags = true;
		if (eptag_index(data) == EPTAG_BELL) {
			bell = true;
			continue;
		}
		if (!(reg = epreg_by_tag(data)))
			continue;
		if (reg->ours) {
			/* first the mark, then the list: a look in between must ask the kernel */
			smc_stream_tcp_event(&reg->conn->stream);
			epset_list(reg->set, reg, PLACE_READY);
			epset_show_level(reg->set);
		} else { /* EPOLLONESHOT before attaching: the kernel's word is final */
			reg->disarmed = (reg->events & EPOLLONESHOT) != 0;
			events[kept++] = (struct epoll_event){ .events = events[i].events, .data.u64 = reg->data };
		}
		smc_unlock(&reg->set->lock);
	}
	if (bell)
		heard_bell(set);
	return kept;
}

/* What the kernel has now, after the first `have` entries. -1 and errno when it finds a fault. */
static int ask_kernel(struct call *k, int have, bool *tags)
{
	struct epset *set = k->set;
	int room = k->max - have, r = 0, kept = 0;

	atomic_store_explicit(&set->asked, smc_now_ns(), memory_order_relaxed);
	atomic_store_explicit(&set->skipped, 0, memory_order_relaxed);
	for (int i = 0; i < ASK_AGAIN; i++) {
		r = real.epoll_wait(k->epfd, k->events + have + kept, room - kept, 0);
		if (r <= 0)
			break;
		int n = epset_translate(set, k->events + have + kept, r, tags);
		bool full = kept + r == room;
		kept += n;
		if (!full || n == r)
			break;
	}
	uint32_t in_vain = atomic_load_explicit(&set->in_vain, memory_order_relaxed);
	atomic_store_explicit(&set->in_vain, kept ? 0 : in_vain + (in_vain < ASK_IN_VAIN), memory_order_relaxed);
	return kept || r >= 0 ? kept : r;
}

static bool ask_due(struct epset *set)
{
	uint32_t skipped = atomic_load_explicit(&set->skipped, memory_order_relaxed) + 1;
	uint64_t patience = atomic_load_explicit(&set->in_vain, memory_order_relaxed) < ASK_IN_VAIN ? ASK_NS : ASK_NS_LONG;

	atomic_store_explicit(&set->skipped, skipped, memory_order_relaxed);
	return skipped >= ASK_CALLS || set->ninner ||
	       smc_now_ns() - atomic_load_explicit(&set->asked, memory_order_relaxed) >= patience;
}

/* ---- both sides ---- */

static void look_around(struct epset *set)
{
	epset_see_changes(set);
	if (link_attention())
		link_harvest();
	if (__builtin_expect(set->ninner, 0))
		epset_settle_inner(set, EPSET_NEST_DEPTH);
}

/* Events there are now, without waiting. When both sides have some they fill the result in turn, so that
 * neither starves the other however small it is. */
static int gather(struct call *k)
{
	struct epset *set = k->set;
	bool tags = false, due, first;
	int n = 0, r;

	look_around(set);
	due = ask_due(set);
	first = due && atomic_load_explicit(&set->nready, memory_order_relaxed) &&
		(atomic_fetch_xor_explicit(&set->turn, 1, memory_order_relaxed) & 1);
	if (first && (n = ask_kernel(k, 0, &tags)) < 0)
		return n;
	if (n < k->max)
		n += epset_collect(set, k->events + n, k->max - n, LOOK_CALL);
	/* with nothing to report, spinning or sleeping asks the kernel anyway */
	if (first || n == k->max || !(n ? due : !k->until))
		return n;
	if ((r = ask_kernel(k, n, &tags)) < 0)
		return n ? n : r;
	if (!n && !r && tags)
		return epset_collect(set, k->events, k->max, LOOK_CALL);
	return n + r;
}

static int spin_once(struct call *k, uint64_t now)
{
	struct epset *set = k->set;
	bool tags = false;
	int n;

	for (int i = 0; i < 8; i++) {
		if (link_attention())
			link_harvest();
		if ((n = epset_collect(set, k->events, k->max, LOOK_SPIN)))
			return n;
		smc_cpu_relax();
	}
	if (now - atomic_load_explicit(&set->asked, memory_order_relaxed) < ASK_NS_SPINNING)
		return 0;
	if (set->ninner)
		epset_settle_inner(set, EPSET_NEST_DEPTH);
	return ask_kernel(k, 0, &tags); /* tags listed: the next round looks */
}

static int spin(struct call *k)
{
	struct epset *set = k->set;
	uint64_t left = until_left_ns(k->until), budget = smc_spin_budget_ns();
	uint64_t start, now, last;
	bool preempted = false;
	int n;

	if (!smc_spin_worth(&set->spin, set->peer_cpu))
		return 0;
	start = last = now = smc_now_ns();
	if (budget > left)
		budget = left;
	do {
		n = spin_once(k, now);
		now = smc_now_ns();
		preempted = now - last > PREEMPTED_NS;
		last = now;
	} while (!n && now - start < budget && !preempted);
	smc_spin_result(&set->spin, n > 0, preempted && n <= 0);
	return n;
}

/* ---- sleeping ---- */

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

static int sleep_in_kernel(struct call *k)
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
static int sleep_on(struct call *k, bool *tags)
{
	__attribute__((cleanup(wake_up))) struct epset *set = fall_asleep(k->set);
	int n;

	look_around(set);
	if ((n = epset_collect(set, k->events, k->max, LOOK_ARM)))
		return n;
	n = sleep_in_kernel(k);
	return n > 0 ? epset_translate(set, k->events, n, tags) : n;
}

/* libc's very call. */
static int original_wait(const struct call *k)
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

/* Nothing of the set is ours: *over says whether the result is final. Our reference to the set was taken before the
 * look at whether it is (epset_fetch). */
static int wait_plain(struct call *k, bool *over)
{
	bool tags = false;
	int n = k->begun ? kernel_wait(k) : original_wait(k);

	k->begun = true;
	*over = n <= 0;
	if (n <= 0)
		return n;
	n = epset_translate(k->set, k->events, n, &tags);
	if (__builtin_expect(tags, 0))
		epset_fetched(k->set);
	*over = n > 0;
	return n;
}

static int wait_for_events(struct call *k)
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
		if ((n = gather(k)) || until_over(k->until))
			return n;
		if ((n = spin(k)))
			return n;
		if ((n = sleep_on(k, &tags)))
			return n;
	}
}

/* ---- what the application calls ---- */

/* NULL: not a set we know, or a fault that the kernel finds: libc's call is all there is. Sets without any TCP
 * socket come here too: one may be added while this thread sleeps. */
static struct epset *set_of(int epfd, int max)
{
	struct fd_object *o = fdtable_get(epfd);

	if (__builtin_expect(!o || o->type != FD_EPOLL || max <= 0 || max > INT_MAX / (int)sizeof(struct epoll_event), 0))
		return NULL;
	return epset_get(epfd);
}

/* A set that never had a TCP socket is unlikely to get one during this call: a rough clock will do for that. */
static until_t end_of(const struct call *k)
{
	bool rough = !k->set->touched && !k->set->ninner;

	if (k->how == BY_EPOLL_PWAIT2)
		return until_timespec(k->timeout, rough);
	return until_ms(k->timeout_ms, rough);
}

/* Also when the thread is cancelled. */
static void let_go(struct epset **set)
{
	epset_put(*set);
}

static int wait_in(struct call k)
{
	__attribute__((cleanup(let_go))) struct epset *set = k.set;
	bool fault = (uintptr_t)k.events < 4096; /* found when there is something to write there */
	struct epoll_event nowhere;
	int saved = errno;

	(void)set;
	if (fault) {
		k.events = &nowhere;
		k.max = 1;
	}
	k.until = end_of(&k);
	int n = wait_for_events(&k);
	if (n > 0 && fault) {
		errno = EFAULT;
		return -1;
	}
	if (n >= 0)
		errno = saved;
	return n;
}

static int bad_epfd(void)
{
	errno = EBADF;
	return -1;
}

SMC_EXPORT int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	struct epset *set = set_of(epfd, max);

	if (!set)
		return fdtable_is_internal(epfd) ? bad_epfd() : real.epoll_wait(epfd, events, max, timeout);
	return wait_in((struct call){ BY_EPOLL_WAIT, epfd, events, max, .timeout_ms = timeout, .set = set });
}

SMC_EXPORT int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
	struct epset *set = set_of(epfd, max);

	if (!set)
		return fdtable_is_internal(epfd) ? bad_epfd() : real.epoll_pwait(epfd, events, max, timeout, mask);
	return wait_in((struct call){ BY_EPOLL_PWAIT, epfd, events, max, .timeout_ms = timeout, .mask = mask, .set = set });
}

SMC_EXPORT int epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
			    const sigset_t *mask)
{
	struct epset *set = until_valid(timeout) ? set_of(epfd, max) : NULL;

	if (!set)
		return fdtable_is_internal(epfd) ? bad_epfd() : real.epoll_pwait2(epfd, events, max, timeout, mask);
	return wait_in((struct call){ BY_EPOLL_PWAIT2, epfd, events, max, .timeout = timeout, .mask = mask, .set = set });
}
