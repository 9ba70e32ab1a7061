/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/sys.h"
#include "preload/epset.h"
#include "preload/latch.h"
#include "preload/raw.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

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
	/* Who sleeps on the bells in the kernel's set must leave first; who comes now uses a latch. (Who sleeps in the
	 * plain way sees the level.) */
	if (!atomic_load(&set->waiting))
		epset_remove_bells(set);
	else
		latch_ring();
}

/* ---- which sets are in which ---- */

/* Not from malloc: what a program did not allocate must not look like a leak of it. */
struct epset_inner {
	struct epset *set; /* with a reference */
	struct epset_inner *next;
};

enum { CHUNK_BYTES = 4096 };
static struct smc_lock pool_lock; /* a leaf */
static struct epset_inner *free_inner;

static struct epset_inner *take_node(void)
{
	struct epset_inner *node, *chunk;

	smc_lock(&pool_lock);
	if (!free_inner) {
		chunk = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (size_t i = 0; chunk != MAP_FAILED && i < CHUNK_BYTES / sizeof(*chunk); i++) {
			chunk[i].next = free_inner;
			free_inner = &chunk[i];
		}
	}
	if ((node = free_inner))
		free_inner = node->next;
	smc_unlock(&pool_lock);
	return node;
}

static void give_node(struct epset_inner *node)
{
	smc_lock(&pool_lock);
	node->next = free_inner;
	free_inner = node;
	smc_unlock(&pool_lock);
}

void epset_nest_fork_prepare(void)
{
	smc_lock(&pool_lock);
}

void epset_nest_fork_parent(void)
{
	smc_unlock(&pool_lock);
}

void epset_nest_fork_child(void)
{
	smc_lock_reset(&pool_lock);
}

void epset_nest(struct epset *inner, struct epset *outer)
{
	struct epset_inner *node;

	/* others follow when they have something to show (epset_settle) */
	if (atomic_load(&inner->nours))
		start_nesting(inner);
	if (!outer || !(node = take_node()))
		return;
	epset_ref(inner);
	node->set = inner;
	smc_lock(&outer->lock);
	node->next = outer->inner;
	outer->inner = node;
	outer->ninner++;
	smc_unlock(&outer->lock);
}

void epset_unnest(struct epset *inner, struct epset *outer)
{
	struct epset_inner *node, **at;

	smc_lock(&outer->lock);
	for (at = &outer->inner; (node = *at) && node->set != inner; at = &node->next)
		;
	if (node) {
		*at = node->next;
		outer->ninner--;
	}
	smc_unlock(&outer->lock);
	if (!node)
		return;
	give_node(node);
	epset_put(inner);
}

void epset_drop_inner(struct epset *set)
{
	while (set->inner)
		epset_unnest(set->inner->set, set);
}

bool epset_inner_special(struct epset *set, unsigned depth)
{
	bool found = false;

	if (!depth)
		return false;
	smc_lock(&set->lock);
	for (struct epset_inner *node = set->inner; node && !found; node = node->next)
		found = atomic_load(&node->set->nours) || (node->set->ninner && epset_inner_special(node->set, depth - 1));
	smc_unlock(&set->lock);
	return found;
}

/* ---- bringing them up to date ---- */

void epset_settle(struct epset *set, unsigned depth)
{
	epset_settle_inner(set, depth);
	if (!atomic_load(&set->nours))
		return;
	start_nesting(set);
	epset_collect(set, NULL, INT_MAX, LOOK_PEEK);
}

/* The n-th, with a reference. */
static struct epset *inner_at(struct epset *set, unsigned n)
{
	struct epset_inner *node;
	struct epset *inner;

	smc_lock(&set->lock);
	for (node = set->inner; node && n; node = node->next)
		n--;
	if ((inner = node ? node->set : NULL))
		epset_ref(inner);
	smc_unlock(&set->lock);
	return inner;
}

void epset_settle_inner(struct epset *set, unsigned depth)
{
	struct epset *inner;

	for (unsigned i = 0; depth && (inner = inner_at(set, i)); i++) {
		if (inner->fd >= 0)
			epset_settle(inner, depth - 1);
		else
			epset_unnest(inner, set); /* closed */
		epset_put(inner);
	}
}
