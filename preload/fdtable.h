/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_FDTABLE_H
#define SMC_PRELOAD_FDTABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * What a descriptor number is to us. Most are nothing: then the wrapper goes straight to libc. Looking up is
 * lock-free: two loads. The table is two-level and bounded: numbers from FDTABLE_MAX on are never ours, and
 * a chunk exists only once one of its numbers was ours.
 *
 * An entry is set and cleared around the real call by the wrapper that makes or closes the descriptor. An
 * object is type-stable memory (never unmapped), so a stale pointer may be looked at, and referenced after
 * checking the entry again.
 */
enum fd_type {
	FD_CONN = 1, /* struct conn: a TCP socket */
	FD_EPOLL,    /* struct epset */
	FD_INTERNAL, /* the library's own: for the application such a number is not open */
};

struct fd_object {
	enum fd_type type;
};

enum { FDTABLE_MAX = 1 << 20, FDTABLE_CHUNK = 1 << 10 };

extern _Atomic(struct fd_object *) *fdtable_chunks[FDTABLE_MAX / FDTABLE_CHUNK];

static inline struct fd_object *fdtable_get(int fd)
{
	if (__builtin_expect((unsigned)fd >= FDTABLE_MAX, 0))
		return NULL;
	_Atomic(struct fd_object *) *chunk =
		__atomic_load_n(&fdtable_chunks[(unsigned)fd / FDTABLE_CHUNK], __ATOMIC_ACQUIRE);
	if (!chunk)
		return NULL;
	return atomic_load_explicit(&chunk[(unsigned)fd % FDTABLE_CHUNK], memory_order_acquire);
}

/* Puts an object (NULL: nothing) and returns what was there before. Out of memory or range: *failed is set. */
struct fd_object *fdtable_set(int fd, struct fd_object *object, bool *failed);

/* Calls `visit` for every entry of the type, in the order of the numbers. */
void fdtable_each(enum fd_type type, void (*visit)(void *context, int fd, struct fd_object *object), void *context);

/* Makes `fd` the library's own: moves it to a high number out of the application's way, close-on-exec, and
 * marks that. Returns the new number; the old one is closed. On failure -errno and `fd` is closed. */
int fdtable_make_internal(int fd);
/* Unmarks and closes. */
void fdtable_close_internal(int fd);
/* Is it one of those? */
bool fdtable_is_internal(int fd);

#endif
