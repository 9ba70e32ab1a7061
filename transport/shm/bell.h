/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_TRANSPORT_SHM_BELL_H
#define SMC_TRANSPORT_SHM_BELL_H

#include "core/stats.h"
#include "transport/shm/layout.h"

/*
 * Doorbells: how a process is told that connections of a link want attention while its threads sleep in
 * epoll_wait or poll.
 *
 * The waker sets the connection's bit in the link page, then looks whether any thread of the other process
 * sleeps (status page) and only then writes the other's eventfd. The sleeper counts itself asleep, then
 * looks at the bits, then sleeps. Each side stores before it loads, with a full fence between, so one of
 * the two sees the other.
 */

/* Our own: one per process that shares links, made before the first link. */
struct shm_bell {
	int fd;			   /* eventfd; only ever written; watched edge-triggered, so never drained */
	int status_fd;		   /* memfd of the status page, sealed so that only this mapping can write */
	struct shm_status *status;
};

int shm_bell_make(struct shm_bell *bell); /* 0 or -errno */
void shm_bell_close(struct shm_bell *bell);

/* How a connection rings the other end. */
struct shm_peer_bell {
	struct shm_attention *attention; /* the other side's bits */
	const struct shm_status *status; /* the other process' status */
	int fd;				 /* the other process' eventfd */
	uint32_t slot;			 /* the connection's bit */
};

void shm_bell_ring(const struct shm_peer_bell *bell);

/* Before a thread sleeps and after it woke. */
static inline void shm_bell_asleep(struct shm_bell *bell)
{
	atomic_fetch_add_explicit(&bell->status->asleep, 1, memory_order_seq_cst);
}

static inline void shm_bell_awake(struct shm_bell *bell)
{
	atomic_fetch_sub_explicit(&bell->status->asleep, 1, memory_order_relaxed);
}

/* Is any bit set? (a quick look, for spinning) */
static inline bool shm_attention_any(struct shm_attention *a)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < SHM_LINK_SLOTS / 64 / 64; i++)
		any |= atomic_load_explicit(&a->summary[i], memory_order_relaxed);
	return any != 0;
}

/* Takes all bits and calls `found` for each slot (always below SHM_LINK_SLOTS). */
void shm_attention_harvest(struct shm_attention *a, void (*found)(void *context, uint32_t slot), void *context);

/* Counters of this process for bells rung; may be NULL. */
extern struct smc_stats_totals *shm_totals;

/* Maps a page another process sent. `writable` pages must be sealed against shrinking. NULL: not as it must be. */
void *shm_map_page(int fd, size_t size, bool writable);
/* A new sealed, fully allocated memfd of `size` bytes, mapped; *fd is the caller's. NULL: *fd is -errno. */
void *shm_make_page(const char *name, size_t size, int *fd);

#endif
