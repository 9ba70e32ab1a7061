/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_EPOLL_H
#define SMC_PRELOAD_EPOLL_H

#include "preload/conn.h"

/*
 * The application's epoll descriptor stays a kernel epoll instance. What the kernel can judge stays its own:
 * descriptors that are no TCP sockets are registered as they come and not remembered. Registrations of TCP
 * sockets are remembered (struct epreg), and once the connection is attached their readiness is worked out
 * here; the kernel's entry then only watches the TCP socket, edge-triggered and under a tag (eptag.h).
 *
 *   epset.c       sets: making, looking up, closing
 *   epset_fork.c  sets that parent and child share
 *   epreg.c       registrations: their table, what the kernel is told, attaching
 *   epoll_list.c  the ready list: who gets in, looking, taking out
 *   epoll_ctl.c   epoll_create, epoll_ctl
 *   epoll_merge.c both sources of events as one, without sleeping
 *   epoll_wait.c  waiting
 *   epoll_nest.c  sets inside sets, and sets inside poll
 *   latch.c       sleeping that hears the doorbells without sharing their edges
 */

/* ---- called by conn.c, link.c, service.c and the wrappers for descriptors ---- */

/* The connection is about to attach (c->lock held, state still ASKED): moves its registrations in all sets to
 * the library's side. False: some registration can't be (EPOLLEXCLUSIVE), the connection must stay on TCP.
 * The channel must be published before c->lock is let go of: those who already look at the new registrations
 * wait for that lock. */
bool epoll_conn_attach(struct conn *c);
/* It asked for attention: into the ready lists of its sets; wakes who sleeps there. Also due whenever a direction
 * changed carrier without a call of the application (a peer that left, RESEND done, handed back by another
 * thread). c->lock is not held. */
void epoll_conn_activity(struct conn *c);
/* The kernel socket had an event. The sets of this process that the kernel tells of it by themselves, by our entry
 * in them, are left to do so: an edge counts once. c->lock is not held. */
void epoll_conn_tcp_event(struct conn *c);
/* A descriptor of it is being closed; `last` if no other descriptor of this process is left. c->lock is not held. */
void epoll_conn_closing(struct conn *c, int fd, bool last);
/* An epoll descriptor is made (or was unknown), dup'ed, closed. */
void epoll_new(int epfd);
void epoll_dup(struct fd_object *set, int newfd);
void epoll_closing(struct fd_object *set, int fd);

void epoll_fork_prepare(void);
void epoll_fork_parent(void);
void epoll_fork_child(void);

#endif
