/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/shm/segment.h"
#include "core/sys.h"
#include "transport/shm/bell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIDE0 = 1, SIDE1 = 2, BOTH = SIDE0 | SIDE1, POOLED = 4 };

static void reset_dir(struct shm_dir *dir)
{
	memset(dir, 0, sizeof(*dir));
	dir->opened = SHM_NONE;
	dir->prod_cpu = ~0u;
}

static size_t segment_size(uint32_t ring0, uint32_t ring1)
{
	return SHM_HEADER + (size_t)ring0 + ring1;
}

/* Zeroes what was written: on short connections far less than the ring. */
static void clear_ring(struct shm_segment *s, unsigned d)
{
	const struct shm_dir *dir = &s->header->dir[d];
	uint64_t opened = dir->opened, prod = dir->prod;
	uint32_t size = s->ring_size[d], at = (uint32_t)opened & (size - 1);
	uint8_t *ring = shm_segment_ring(s, d);

	if (opened == SHM_NONE)
		return;
	if (prod - opened >= size) {
		memset(ring, 0, size);
		return;
	}
	uint32_t n = (uint32_t)(prod - opened), first = n < size - at ? n : size - at;
	memset(ring + at, 0, first);
	memset(ring, 0, n - first);
}

static void clear(struct shm_segment *s)
{
	for (unsigned d = 0; d < 2; d++) {
		clear_ring(s, d);
		reset_dir(&s->header->dir[d]);
	}
}

static struct shm_segment *wrap(void *map, uint32_t id, uint32_t ring0, uint32_t ring1)
{
	struct shm_segment *s = malloc(sizeof(*s));

	if (s)
		*s = (struct shm_segment){
			.header = map, .size = segment_size(ring0, ring1), .ring_size = { ring0, ring1 }, .id = id,
		};
	return s;
}

static struct shm_segment *make(uint32_t id, uint32_t ring0, uint32_t ring1, int *fd)
{
	size_t size = segment_size(ring0, ring1);
	void *map = shm_make_page("smc_preload_segment", size, fd);

	if (!map)
		return NULL;
	struct shm_segment *s = wrap(map, id, ring0, ring1);
	if (!s) {
		munmap(map, size);
		smc_sys.close(*fd);
		*fd = -ENOMEM;
		return NULL;
	}
	for (unsigned d = 0; d < 2; d++)
		reset_dir(&s->header->dir[d]);
	return s;
}

struct shm_segment *shm_segment_get(struct shm_pool *pool, uint32_t ring0, uint32_t ring1, int *fd)
{
	struct shm_segment *s;

	smc_lock(&pool->lock);
	for (s = pool->all; s; s = s->next) {
		uint32_t free_word = BOTH | POOLED;
		if (s->ring_size[0] == ring0 && s->ring_size[1] == ring1 &&
		    atomic_compare_exchange_strong(&s->header->released, &free_word, 0))
			break;
	}
	*fd = -1;
	if (!s && pool->count < SHM_POOL_MAX && (s = make(pool->count, ring0, ring1, fd))) {
		s->next = pool->all;
		pool->all = s;
		pool->count++;
	} else if (!s && *fd == -1) {
		*fd = -ENOSPC;
	}
	smc_unlock(&pool->lock);
	if (shm_totals && s)
		atomic_fetch_add_explicit(*fd < 0 ? &shm_totals->pool_hits : &shm_totals->pool_misses, 1, memory_order_relaxed);
	return s;
}

static bool ring_size_ok(uint32_t size)
{
	return size >= 4096 && size <= 1u << 30 && !(size & (size - 1));
}

struct shm_segment *shm_segment_adopt(struct shm_pool *pool, uint32_t id, uint32_t ring0, uint32_t ring1, int fd)
{
	struct shm_segment *s = NULL;

	if (!ring_size_ok(ring0) || !ring_size_ok(ring1))
		return NULL;
	smc_lock(&pool->lock);
	for (s = pool->all; s && s->id != id; s = s->next)
		;
	if (fd < 0) {
		if (s && (s->ring_size[0] != ring0 || s->ring_size[1] != ring1))
			s = NULL;
	} else if (!s && pool->count < SHM_POOL_MAX) {
		void *map = shm_map_page(fd, segment_size(ring0, ring1), true);
		if (map && (s = wrap(map, id, ring0, ring1))) {
			s->next = pool->all;
			pool->all = s;
			pool->count++;
		} else if (map) {
			munmap(map, segment_size(ring0, ring1));
		}
	} else {
		s = NULL; /* a new segment under a known id, or too many */
	}
	smc_unlock(&pool->lock);
	return s;
}

void shm_segment_release(struct shm_segment *s, unsigned side)
{
	uint32_t mine = side ? SIDE1 : SIDE0;

	if ((atomic_fetch_or(&s->header->released, mine) | mine) != BOTH)
		return;
	clear(s);
	atomic_store(&s->header->released, BOTH | POOLED);
}

void shm_segment_cancel(struct shm_segment *s)
{
	/* the peer said it does not use it */
	atomic_fetch_or(&s->header->released, SIDE1);
	shm_segment_release(s, 0);
}

void shm_pool_destroy(struct shm_pool *pool)
{
	struct shm_segment *next;

	for (struct shm_segment *s = pool->all; s; s = next) {
		next = s->next;
		munmap(s->header, s->size);
		free(s);
	}
	pool->all = NULL;
	pool->count = 0;
}
