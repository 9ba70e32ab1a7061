/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/latch.h"
#include "core/lock.h"
#include "core/sys.h"
#include "core/wait.h"
#include "preload/link.h"
#include "preload/raw.h"

#include <sys/mman.h>

struct latch {
	int fd;		     /* epoll instance, -1 = not made */
	unsigned generation; /* of the list of bells it holds ... */
	unsigned bells;	     /* ... so many */
	struct latch *next;  /* free list */
};

enum { LATCH_CHUNK = 64, LATCH_CHUNKS = 1024 };

static struct smc_lock lock; /* of all here; a leaf */
static struct latch *chunks[LATCH_CHUNKS];
static unsigned chunk_count;
static struct latch *free_latches;

static bool grow(void)
{
	if (chunk_count == LATCH_CHUNKS)
		return false;
	struct latch *chunk =
		mmap(NULL, LATCH_CHUNK * sizeof(*chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (chunk == MAP_FAILED)
		return false;
	for (unsigned i = 0; i < LATCH_CHUNK; i++) {
		chunk[i].fd = -1;
		chunk[i].next = free_latches;
		free_latches = &chunk[i];
	}
	chunks[chunk_count++] = chunk;
	return true;
}

/* With the lock: all bells there are now are in it. */
static void put_bells(struct latch *l, const int *bells, unsigned n, unsigned generation)
{
	if (l->bells == n && l->generation == generation)
		return;
	for (unsigned i = 0; i < n; i++) {
		struct epoll_event e = { .events = EPOLLIN | EPOLLET };
		raw_call4(SYS_epoll_ctl, l->fd, EPOLL_CTL_ADD, bells[i], &e);
	}
	l->generation = generation;
	l->bells = n;
}

static struct latch *latch_get(void)
{
	int bells[LINK_BELLS];
	unsigned generation, n = link_bell_fds(bells, &generation);
	struct latch *l = NULL;

	smc_lock(&lock);
	if (free_latches || grow()) {
		l = free_latches;
		if (l->fd < 0) {
			int fd = (int)raw_call3(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0);
			l->fd = fd < 0 ? fd : fdtable_make_internal(fd);
			l->bells = 0;
		}
		if (l->fd >= 0) {
			free_latches = l->next;
			put_bells(l, bells, n, generation);
		} else {
			l->fd = -1;
			l = NULL;
		}
	}
	smc_unlock(&lock);
	return l;
}

static void latch_put(struct latch **held)
{
	struct latch *l = *held;

	if (!l)
		return;
	smc_lock(&lock);
	l->next = free_latches;
	free_latches = l;
	smc_unlock(&lock);
}

/* Without a descriptor for a latch: short sleeps, looking in between. */
static int sleep_slice(struct pollfd *fds, nfds_t n, until_t until, const sigset_t *mask)
{
	struct timespec slice = { .tv_nsec = 1000000 };

	if (until_left_ns(until) < 1000000)
		until_timeout(until, &slice);
	return real.ppoll(fds, n, &slice, mask);
}

/* ppoll is a cancellation point: the latch goes back to the pool also when the thread is cancelled there
 * (the library is built with -fexceptions for this). */
int latch_sleep(struct pollfd *fds, nfds_t n, until_t until, const sigset_t *mask)
{
	__attribute__((cleanup(latch_put))) struct latch *l = latch_get();
	struct timespec space;

	if (smc_wait_totals)
		atomic_fetch_add_explicit(&smc_wait_totals->sleeps, 1, memory_order_relaxed);
	if (!l)
		return sleep_slice(fds, n, until, mask);
	fds[n] = (struct pollfd){ .fd = l->fd, .events = POLLIN };
	int r = real.ppoll(fds, n + 1, until_timeout(until, &space), mask);
	if (r < 0 && errno == EINVAL) /* one entry too many for RLIMIT_NOFILE */
		return sleep_slice(fds, n, until, mask);
	if (r > 0 && fds[n].revents) {
		struct epoll_event e[LINK_BELLS];
		raw_call6(SYS_epoll_pwait, l->fd, (long)e, LINK_BELLS, 0, 0, 0);
		r--;
	}
	return r;
}

void latch_ring(void)
{
	int bells[LINK_BELLS];
	unsigned generation, n = link_bell_fds(bells, &generation);
	const uint64_t one = 1;

	for (unsigned i = 0; i < n; i++)
		smc_sys.write(bells[i], &one, sizeof(one));
}

void latch_bells_changed(void)
{
	static _Atomic unsigned known;
	int bells[LINK_BELLS];
	unsigned generation, n = link_bell_fds(bells, &generation);

	if (known == generation)
		return;
	smc_lock(&lock);
	for (unsigned i = 0; i < chunk_count; i++)
		for (unsigned k = 0; k < LATCH_CHUNK; k++)
			if (chunks[i][k].fd >= 0)
				put_bells(&chunks[i][k], bells, n, generation);
	known = generation;
	smc_unlock(&lock);
}

void latch_fork_prepare(void)
{
	smc_lock(&lock);
}

void latch_fork_parent(void)
{
	smc_unlock(&lock);
}

/* The parent's latches are shared with it, edges and all: the child makes its own. */
void latch_fork_child(void)
{
	smc_lock_reset(&lock);
	free_latches = NULL;
	for (unsigned i = 0; i < chunk_count; i++) {
		for (unsigned k = 0; k < LATCH_CHUNK; k++) {
			struct latch *l = &chunks[i][k];
			fdtable_close_internal(l->fd);
			l->fd = -1;
			l->next = free_latches;
			free_latches = l;
		}
	}
}
