/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_SERVICE_H
#define SMC_PRELOAD_SERVICE_H

#include "preload/conn.h"

/*
 * The service thread: rendezvous, links, and watching the TCP sockets of attached connections. It does not
 * exist until a connection is worth an upgrade, blocks all signals, and is not there after fork until needed again.
 */

/* The connection (a CANDIDATE that was just made ASKED, a reference is handed over) is worth an upgrade. Quick:
 * queues it and wakes or starts the thread. If it cannot, the connection becomes PLAIN with the reason. */
void service_want(struct conn *c);

/* An attached connection inherited over fork is used in this process: watch its TCP socket here too. */
void service_adopt(struct conn *c);

/* Before the last descriptor of a connection in this process is closed: forget it (any state). */
void service_forget(struct conn *c);

/* The peer of this attached connection froze what we write: somebody must write it to TCP. */
void service_owes(struct conn *c);

void service_fork_prepare(void); /* stops the thread between two pieces of work */
void service_fork_parent(void);
void service_fork_child(void);

#endif
