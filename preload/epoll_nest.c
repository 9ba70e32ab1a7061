/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/sys.h"
#include "preload/epset.h"
#include "preload/latch.h"
#include "preload/raw.h"

#include <stdlib.h>
#include <sys/eventfd.h>

/*
 * A set that is itself watched, by another set or by poll. What is ready in user space must make the kernel's
 * set readable, and no longer than it is ready: an eventfd in the set, level-triggered, is kept readable while
 * the ready list holds something ready. Doorbells would make such a set readable for nothing, so they are taken
 * out; whoever waits for it, directly or from outside, hears them by a latch or in the outermost set.
 */

void epset_show_level(struct epset *set)
{
	uint64_t word = 1;
	bool up;

	if (__builtin_expect(!set->nested || set->nest_fd < 0, 1))
		return;
	up = set->nready != 0;
	if (up == set->raised)
		return;
	set->raised = up;
	if (up)
		smc_sys.write(set->nest_fd, &word, sizeof(word));
	else
		raw_call3(SYS_read, set->nest_fd, &word, sizeof(word));
}

/* With set->lock */
static void make_level(struct epset *set)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = eptag_make(EPTAG_BELL, 0) };
	int fd = (int)raw_call3(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK, 0);

	if (fd < 0 || (fd = fdtable_make_internal(fd)) < 0)
		return; /* then doorbells are better than nothing */
	if (raw_call4(SYS_epoll_ctl, set->fd, EPOLL_CTL_ADD, fd, &e) < 0) {
		fdtable_close_internal(fd);
		return;
	}
	set->nest_fd = fd;
	set->raised = false;
	set->nested = true;
}

static void start_nesting(struct epset *set)
{
	smc_lock(&set->lock);
	if (!set->nested && set->fd >= 0)
		make_level(set);
	bool bells = set->nested && set->bells;
	epset_show_level(set);
	smc_unlock(&set->lock);
	if (!bells)
		return;
	/* who sleeps on the bells in the kernel's set must leave first; who comes now uses a latch */
	if (!atomic_load(&set->waiting) && !atomic_load(&set->direct))
		epset_remove_bells(set);
	else
		latch_ring();
}

void epset_nest(struct epset *inner, struct epset *outer)
{
	/* others follow when they have something to show (epset_settle) */
	if (atomic_load(&inner->nours))
		start_nesting(inner);
	if (!outer)
		return;
	smc_lock(&outer->lock);
	unsigned n = outer->ninner;
	struct epset **list = realloc(outer->inner, (n + 1) * sizeof(*list));
	if (list) {
		epset_ref(inner);
		list[n] = inner;
		outer->inner = list;
		outer->ninner = n + 1;
	}
	smc_unlock(&outer->lock);
}

void epset_unnest(struct epset *inner, struct epset *outer)
{
	bool found = false;

	smc_lock(&outer->lock);
	for (unsigned i = 0; i < outer->ninner && !found; i++) {
		if (outer->inner[i] != inner)
			continue;
		outer->inner[i] = outer->inner[--outer->ninner];
		found = true;
	}
	smc_unlock(&outer->lock);
	if (found)
		epset_put(inner);
}

void epset_drop_inner(struct epset *set)
{
	while (set->ninner)
		epset_put(set->inner[--set->ninner]);
	free(set->inner);
	set->inner = NULL;
}

void epset_settle(struct epset *set, unsigned depth)
{
	epset_settle_inner(set, depth);
	if (!atomic_load(&set->nours))
		return;
	start_nesting(set);
	epset_collect(set, NULL, INT_MAX, LOOK_PEEK);
}

void epset_settle_inner(struct epset *set, unsigned depth)
{
	for (unsigned i = 0; depth && i < set->ninner; i++) {
		struct epset *inner = NULL;

		smc_lock(&set->lock);
		if (i < set->ninner) {
			inner = set->inner[i];
			epset_ref(inner);
		}
		smc_unlock(&set->lock);
		if (!inner)
			return;
		if (inner->fd >= 0)
			epset_settle(inner, depth - 1);
		else
			epset_unnest(inner, set); /* closed */
		epset_put(inner);
	}
}
