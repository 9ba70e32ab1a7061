/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_LINK_H
#define SMC_PRELOAD_LINK_H

#include "preload/conn.h"
#include "transport/shm/bell.h"
#include "transport/shm/segment.h"

/*
 * A link is a pair of processes that share connections: a unix socket between their service threads, the
 * page of attention bits, both doorbells, and the pools of segments. Links are made by preload/service.c and
 * live until the socket is closed and the last connection on them has gone.
 */

/* ---- sleeping and waking, for epoll_wait, poll and select ---- */

/*
 * How a thread that found nothing ready goes to sleep in the kernel without losing a wake-up:
 *
 *   link_asleep();                        count ourselves; the peers ring from here on
 *   look at every connection waited for   (for epoll: link_harvest and the set's ready list; for poll: smc_stream_poll
 *                                          with arm=true on each)
 *   real epoll_wait or poll, with link_bell_fds() in it, edge-triggered
 *   link_awake();
 */
void link_asleep(void);
void link_awake(void);

/* Doorbells to watch: at most LINK_BELLS (our own, and those inherited over fork). The generation changes
 * whenever the list does. Watch with EPOLLIN | EPOLLET; never read them. */
enum { LINK_BELLS = 8 };
unsigned link_bell_fds(int fds[LINK_BELLS], unsigned *generation);

/* Has any connection of our links asked for attention? Cheap, no system call; for spinning. */
bool link_attention(void);

/* Takes all attention bits and calls epoll_conn_activity(c) for each connection (after re-arming nothing:
 * the callee arms by looking with arm=true). Any thread may call it. */
void link_harvest(void);

/* ---- for preload/conn.c ---- */

/* The connection is over in this process. */
void link_detach(struct conn *c);
/* Sends LEFT over the link: smc_stream.tell_frozen. */
void link_tell_frozen(struct smc_stream *s);

void link_fork_prepare(void);
void link_fork_parent(void);
void link_fork_child(void);

#endif
