/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_LATCH_H
#define SMC_PRELOAD_LATCH_H

#include "preload/until.h"

#include <poll.h>
#include <signal.h>

/*
 * A latch is an epoll instance of the library's own in which one sleeping thread finds the doorbells,
 * edge-triggered: each latch gets its own edge of each ring, so no other sleeper can take it away. Used where
 * the sleeper does not sleep in an epoll set of its own: poll and select, and epoll sets that others look at
 * too (shared over fork, nested in another set).
 *
 * Latches are kept in a pool; there are as many as threads ever slept in this way at the same time.
 */
struct latch;

/* Sleeps in ppoll on fds[0 .. n-1] and the doorbells; fds must have room for one more entry. As ppoll:
 * number of entries of the caller's with revents, -1 and errno (EINTR ...). Returns early with 0 after a ring. */
int latch_sleep(struct pollfd *fds, nfds_t n, until_t until, const sigset_t *mask);

/* Wakes every thread of this process that sleeps on doorbells. */
void latch_ring(void);
/* Doorbells may have been made: whoever sleeps on a latch now must hear those too. */
void latch_bells_changed(void);

void latch_fork_prepare(void);
void latch_fork_parent(void);
void latch_fork_child(void);

#endif
