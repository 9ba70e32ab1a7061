/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_TRANSPORT_SHM_SEGMENT_H
#define SMC_TRANSPORT_SHM_SEGMENT_H

#include "core/lock.h"
#include "transport/shm/layout.h"

/*
 * The memory of one connection: header and two rings, in a memfd that exactly two processes (and their
 * forked children) map. Making one costs system calls and page faults, so those of closed connections are
 * kept in a pool per link and direction of making, cleared by whichever end lets go last: what a pool
 * hands out is as new.
 */
struct shm_segment {
	struct shm_segment_header *header;
	size_t size;		 /* of the mapping */
	uint32_t ring_size[2];	 /* of dir[0] and dir[1] */
	uint32_t id;		 /* names it within the pool it belongs to */
	struct shm_segment *next; /* in the pool, used or not */
};

/* Segments of a link: those one side made. The other side holds the same ids, mapped. */
struct shm_pool {
	struct smc_lock lock;
	struct shm_segment *all;
	uint32_t count;
};

enum { SHM_POOL_MAX = SHM_LINK_SLOTS };

/* Maker: a segment with such rings, from the pool or new. *fd is -1 for one the peer has already, else the
 * memfd to send (the caller closes it). NULL: *fd is -errno. */
struct shm_segment *shm_segment_get(struct shm_pool *pool, uint32_t ring0, uint32_t ring1, int *fd);
/* Other side: the segment `id`; with fd >= 0 it is new and mapped now (fd stays the caller's), after the
 * kernel vouched for its size and seals. NULL: not acceptable. */
struct shm_segment *shm_segment_adopt(struct shm_pool *pool, uint32_t id, uint32_t ring0, uint32_t ring1, int fd);
/* One side is done. The second to say so clears it, which puts it back into the maker's pool. */
void shm_segment_release(struct shm_segment *segment, unsigned side);
/* The maker takes back one that the peer declined. */
void shm_segment_cancel(struct shm_segment *segment);
/* The link is gone, and with it every connection that used a segment: unmaps all. */
void shm_pool_destroy(struct shm_pool *pool);

static inline uint8_t *shm_segment_ring(struct shm_segment *s, unsigned dir)
{
	return (uint8_t *)s->header + SHM_HEADER + (dir ? s->ring_size[0] : 0);
}

#endif
