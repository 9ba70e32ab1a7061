/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arena.h"
#include "core/lock.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* 256 KiB of address space a chunk, touched page by page as objects are used. */
enum { CHUNK = 256 * 1024, PER_CHUNK = CHUNK / SMC_ARENA_OBJECT - 1 };

struct arena;

union object {
	union object *next;
	char bytes[SMC_ARENA_OBJECT];
};

/* First object of each chunk. */
struct chunk {
	struct arena *arena; /* whose free list takes this chunk's objects back */
	struct arena {
		struct smc_lock lock;
		unsigned fresh; /* objects of the newest chunk handed out so far */
		struct chunk *newest;
		union object *free;
	} own; /* in the first chunk of an arena only */
};

_Static_assert(sizeof(struct chunk) <= SMC_ARENA_OBJECT, "the chunk header takes the place of one object");

static struct arena *arena;
static struct smc_lock making; /* guards `arena` while it is NULL */

static struct chunk *new_chunk(void)
{
	/* twice the size, so that an aligned chunk is somewhere inside: an object finds its chunk by its address */
	char *map = mmap(NULL, 2 * CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	char *chunk = (char *)(((uintptr_t)map + CHUNK - 1) & ~(uintptr_t)(CHUNK - 1));
	if (chunk > map)
		munmap(map, (size_t)(chunk - map));
	if (chunk + CHUNK < map + 2 * CHUNK)
		munmap(chunk + CHUNK, (size_t)(map + CHUNK - chunk));
	return (struct chunk *)chunk;
}

static struct arena *get_arena(void)
{
	smc_lock(&making);
	if (!arena) {
		struct chunk *first = new_chunk();
		if (first) {
			first->arena = &first->own;
			first->own.newest = first;
			__atomic_store_n(&arena, &first->own, __ATOMIC_RELEASE);
		}
	}
	smc_unlock(&making);
	return arena;
}

static union object *take_fresh(struct arena *a)
{
	if (a->fresh == PER_CHUNK) {
		struct chunk *chunk = new_chunk();
		if (!chunk)
			return NULL;
		chunk->arena = a;
		a->newest = chunk;
		a->fresh = 0;
	}
	return (union object *)a->newest + ++a->fresh;
}

void *smc_arena_alloc(void)
{
	struct arena *a = __atomic_load_n(&arena, __ATOMIC_ACQUIRE);

	if (!a && !(a = get_arena()))
		return NULL;
	smc_lock(&a->lock);
	union object *object = a->free;
	if (object)
		a->free = object->next;
	else
		object = take_fresh(a);
	smc_unlock(&a->lock);
	if (object)
		memset(object, 0, sizeof(*object));
	return object;
}

void smc_arena_free(void *p)
{
	union object *object = p;
	struct chunk *chunk = (struct chunk *)((uintptr_t)p & ~(uintptr_t)(CHUNK - 1));
	struct arena *a = chunk->arena;

	smc_lock(&a->lock);
	object->next = a->free;
	a->free = object;
	smc_unlock(&a->lock);
}

void smc_arena_forked(void)
{
	smc_lock_reset(&making);
	arena = NULL;
}
