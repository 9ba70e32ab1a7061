/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/epset.h"
#include "preload/latch.h"
#include "preload/link.h"
#include "preload/raw.h"
#include "preload/start.h"

#include <string.h>
#include <sys/mman.h>

/* Type-stable, like all objects of the descriptor table. */
enum { SET_CHUNK = 16 };

struct smc_lock epset_pool_lock;
struct epset *epset_all;
static struct epset *free_sets;

static bool grow(void)
{
	struct epset *chunk =
		mmap(NULL, SET_CHUNK * sizeof(*chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (chunk == MAP_FAILED)
		return false;
	for (unsigned i = 0; i < SET_CHUNK; i++) {
		chunk[i].object.type = FD_EPOLL;
		chunk[i].fd = chunk[i].nest_fd = -1;
		chunk[i].next = free_sets;
		free_sets = &chunk[i];
		chunk[i].all = epset_all;
		epset_all = &chunk[i];
	}
	return true;
}

static struct epset *allocate(void)
{
	smc_lock(&epset_pool_lock);
	struct epset *set = free_sets || grow() ? free_sets : NULL;
	if (set)
		free_sets = set->next;
	smc_unlock(&epset_pool_lock);
	return set;
}

/* A fresh set with one reference, the table's. */
static struct epset *make(int fd)
{
	struct epset *set = allocate();
	size_t from = offsetof(struct epset, lock);

	if (!set)
		return NULL;
	/* all but the reference count, which a reader with a stale pointer may be counting up and down */
	memset((char *)set + from, 0, sizeof(*set) - from);
	set->nest_fd = -1;
	set->peer_cpu = ~0u;
	set->nfds = 1;
	set->fd = fd;
	atomic_fetch_add(&set->refs, 1);
	return set;
}

/* ---- references ---- */

void epset_ref(struct epset *set)
{
	atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
}

void epset_put_last(struct epset *set)
{
	smc_lock(&epset_pool_lock);
	/* A reader with a stale pointer may come here too, for a set that is free or in use again. */
	if (!set->nfds && set->fd == -1 && !atomic_load(&set->refs)) {
		set->fd = -2;
		set->next = free_sets;
		free_sets = set;
	}
	smc_unlock(&epset_pool_lock);
}

/* ---- descriptors ---- */

static void drop_stale(struct fd_object *stale, int fd)
{
	if (stale && stale->type == FD_EPOLL)
		epoll_closing(stale, fd);
	else
		conn_stale(stale, fd);
}

void epoll_new(int epfd)
{
	struct epset *set;
	bool failed;

	start_once();
	if (!(set = make(epfd)))
		return;
	struct fd_object *stale = fdtable_set(epfd, &set->object, &failed);
	drop_stale(stale, epfd);
	if (failed) {
		set->nfds = 0;
		set->fd = -1;
		epset_put(set);
	}
}

void epoll_dup(struct fd_object *o, int newfd)
{
	struct epset *set = (struct epset *)o;
	bool failed;

	epset_ref(set);
	smc_lock(&set->lock);
	set->nfds++;
	smc_unlock(&set->lock);
	struct fd_object *stale = fdtable_set(newfd, o, &failed);
	drop_stale(stale, newfd);
	if (failed)
		epoll_closing(o, newfd);
}

struct other_fd {
	struct fd_object *object;
	int fd;
};

static void find_other(void *context, int fd, struct fd_object *object)
{
	struct other_fd *o = context;

	if (object == o->object)
		o->fd = fd;
}

static void drop_all(struct epset *set)
{
	for (;;) {
		smc_lock(&set->lock);
		struct epreg *reg = set->regs;
		struct conn *c = reg ? reg->conn : NULL;
		uint32_t generation = reg ? reg->generation : 0;
		if (c)
			conn_ref(c);
		smc_unlock(&set->lock);
		if (!reg)
			return;
		smc_lock(&c->lock);
		/* nobody but the holder of c->lock drops registrations of c */
		if (reg->generation == generation && reg->set == set && !reg->dead)
			epreg_drop(reg);
		smc_unlock(&c->lock);
		conn_put(c);
	}
}

void epoll_closing(struct fd_object *o, int fd)
{
	struct epset *set = (struct epset *)o;
	struct other_fd other = { o, -1 };

	if (set->fd == fd)
		fdtable_each(FD_EPOLL, find_other, &other);
	smc_lock(&set->lock);
	bool last = --set->nfds == 0;
	if (last)
		set->fd = -1;
	else if (set->fd == fd && other.fd >= 0)
		set->fd = other.fd;
	smc_unlock(&set->lock);
	if (last) {
		drop_all(set);
		epset_drop_inner(set);
		fdtable_close_internal(set->nest_fd);
		set->nest_fd = -1;
		epset_drop_shared(set);
	}
	epset_put(set);
}

/* ---- what a set is like ---- */

bool epset_special(struct epset *set)
{
	if (atomic_load(&set->nours))
		return true;
	return __builtin_expect(set->ninner != 0, 0) && epset_inner_special(set, EPSET_NEST_DEPTH);
}

bool epset_put_bells(struct epset *set)
{
	int bells[LINK_BELLS];
	unsigned generation, n;

	if (set->nested)
		return false;
	n = link_bell_fds(bells, &generation);
	if (set->bells && set->bell_generation == generation)
		return true;
	set->bells = true;
	set->bell_generation = generation;
	for (unsigned i = 0; i < n; i++) {
		struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.u64 = eptag_make(EPTAG_BELL, 0) };
		long r = raw_call4(SYS_epoll_ctl, set->fd, EPOLL_CTL_ADD, bells[i], &e);
		if (r < 0 && r != -EEXIST)
			set->bells = false;
	}
	return set->bells;
}

/* Who waits in the plain way is counted only by its reference: taken before the look at whether the set is special;
 * here it is the other way round. There are others with references, so some rings are for nothing. */
void epset_fetch(struct epset *set)
{
	uint32_t users = atomic_load(&set->refs) - set->nfds;

	if (!users)
		return;
	atomic_store(&set->to_fetch, users);
	latch_ring();
}

/* An edge wakes one thread of a set: it sees to the next. */
void epset_fetched(struct epset *set)
{
	uint32_t n = atomic_load(&set->to_fetch);

	while (n && !atomic_compare_exchange_weak(&set->to_fetch, &n, n - 1))
		;
	if (n > 1)
		latch_ring();
}

void epset_remove_bells(struct epset *set)
{
	int bells[LINK_BELLS];
	unsigned generation, n = link_bell_fds(bells, &generation);

	smc_lock(&set->lock);
	if (set->bells && (set->nested || !set->nours)) {
		for (unsigned i = 0; i < n; i++)
			raw_call4(SYS_epoll_ctl, set->fd, EPOLL_CTL_DEL, bells[i], NULL);
		set->bells = false;
	}
	smc_unlock(&set->lock);
}
