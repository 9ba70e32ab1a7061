/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_ARENA_H
#define SMC_CORE_ARENA_H

#include <stddef.h>

/*
 * Fixed-size objects in memory that forked children share with their parent (MAP_SHARED, anonymous), for
 * state that belongs to an open socket rather than to a process. Objects come zeroed.
 *
 * A process allocates only from arenas it made itself: after fork the child starts a new one
 * (smc_arena_forked), while it goes on using, and may free, the objects it inherited. A freed object goes
 * back to the arena it came from, for the process that made it. kill -9 of the last holder leaks one object.
 */
void *smc_arena_alloc(void); /* NULL: no memory */
void smc_arena_free(void *object);
void smc_arena_forked(void);

/* The size of every object, in bytes; users assert that theirs fits. */
#define SMC_ARENA_OBJECT 256

#endif
