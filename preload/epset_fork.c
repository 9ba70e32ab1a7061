/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arena.h"
#include "preload/epset.h"
#include "preload/latch.h"

/*
 * A forked child has a copy of each set, and shares the kernel's set with its parent. The copy of the ready list
 * is made anew when the child first uses the set. What one of them adds, changes or deletes in the kernel's set
 * concerns the other too: a counter in shared memory says that there was something, and who sees it asks the
 * kernel which of its own registrations are still there.
 */
struct epset_shared {
	_Atomic uint32_t holders;
	_Atomic uint32_t changes;
};

_Static_assert(sizeof(struct epset_shared) <= SMC_ARENA_OBJECT, "make SMC_ARENA_OBJECT larger");

/* ---- what the other process did ---- */

void epset_changed(struct epset *set)
{
	uint32_t before;

	if (__builtin_expect(!set->shared, 1))
		return;
	before = atomic_fetch_add(&set->shared->changes, 1);
	if (set->changes_seen == before)
		set->changes_seen = before + 1;
}

/* The next registration that was not asked for since; with a reference to its connection. */
static struct epreg *next_to_check(struct epset *set, uint32_t round)
{
	struct epreg *reg;

	smc_lock(&set->lock);
	for (reg = set->regs; reg && (reg->checked == round || !reg->ours); reg = reg->next)
		;
	if (reg) {
		reg->checked = round;
		conn_ref(reg->conn);
	}
	smc_unlock(&set->lock);
	return reg;
}

static void check(struct epset *set, struct epreg *reg, struct conn *c, uint32_t generation)
{
	bool gone = false;

	smc_lock(&c->lock);
	/* nobody but the holder of c->lock drops registrations of c */
	if (reg->generation == generation && reg->set == set && !reg->dead) {
		smc_lock(&set->lock);
		gone = !epreg_in_kernel(reg);
		smc_unlock(&set->lock);
		if (gone)
			epreg_drop(reg);
	}
	smc_unlock(&c->lock);
}

void epset_see_changes(struct epset *set)
{
	struct epreg *reg;

	if (__builtin_expect(!set->shared, 1) || atomic_load(&set->shared->changes) == set->changes_seen)
		return;
	set->changes_seen = atomic_load(&set->shared->changes);
	/* 0 is what a new registration has */
	uint32_t round = set->changes_seen ? set->changes_seen : 1;
	while ((reg = next_to_check(set, round))) {
		struct conn *c = reg->conn;
		check(set, reg, c, reg->generation);
		conn_put(c);
	}
}

void epset_drop_shared(struct epset *set)
{
	struct epset_shared *shared = set->shared;

	set->shared = NULL;
	if (shared && atomic_fetch_sub(&shared->holders, 1) == 1)
		smc_arena_free(shared);
}

/* ---- fork ---- */

static void share(struct epset *set)
{
	if (!set->shared && set->regs && (set->shared = smc_arena_alloc()))
		set->shared->holders = 1;
	if (set->shared)
		atomic_fetch_add(&set->shared->holders, 1); /* a child that execs or is killed leaks a few bytes */
}

void epoll_fork_prepare(void)
{
	smc_lock(&epset_pool_lock);
	for (struct epset *set = epset_all; set; set = set->all) {
		smc_lock(&set->lock);
		if (set->nfds)
			share(set);
	}
	epreg_fork_prepare();
	epset_nest_fork_prepare();
	latch_fork_prepare();
}

void epoll_fork_parent(void)
{
	latch_fork_parent();
	epset_nest_fork_parent();
	epreg_fork_parent();
	for (struct epset *set = epset_all; set; set = set->all) {
		if (set->nfds)
			set->forked = true;
		smc_unlock(&set->lock);
	}
	smc_unlock(&epset_pool_lock);
}

void epoll_fork_child(void)
{
	latch_fork_child();
	epreg_fork_child();
	epset_nest_fork_child();
	for (struct epset *set = epset_all; set; set = set->all) {
		smc_lock_reset(&set->lock);
		set->waiting = set->to_fetch = 0;
		/* references of calls in threads that are not here stay: such a set is just not used again */
		if (set->nfds)
			set->forked = set->stale = true;
	}
	smc_lock_reset(&epset_pool_lock);
}

/* The copy may lack what a thread of the parent was looking at, and the attention of its connections goes to
 * the parent: so all are looked at. */
void epset_rebuild(struct epset *set)
{
	smc_lock(&set->lock);
	if (set->stale) {
		set->head = set->tail = NULL;
		set->nlisted = set->nready = set->nwarm = 0;
		for (struct epreg *reg = set->regs; reg; reg = reg->next) {
			reg->place = PLACE_NONE;
			reg->busy = reg->again = reg->adopted = false;
			reg->ready_prev = reg->ready_next = NULL;
			epset_list(set, reg, PLACE_READY);
		}
		set->stale = false;
	}
	smc_unlock(&set->lock);
}
