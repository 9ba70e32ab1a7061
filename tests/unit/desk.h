/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_TESTS_UNIT_DESK_H
#define SMC_TESTS_UNIT_DESK_H

#include "preload/conn.h"
#include "preload/real.h"

/*
 * What stands around the waiting calls (preload/epoll_*.c, poll.c, select.c) in a test of them alone: both ends
 * of connections in this process, attached when the test says so, with no service thread behind them.
 */

/* Two ends of a new connection, in the table of descriptors, not attached. */
void desk_pair(struct conn *ends[2]);
/* As the service thread would: false = it must stay on TCP. */
bool desk_attach(struct conn *c);
/* Attaches both and moves bytes both ways until all goes through the channel. */
void desk_up(struct conn *ends[2]);
/* As the wrappers of send, recv, close: -1 and errno. */
ssize_t desk_put(struct conn *c, const void *data, size_t n);
ssize_t desk_get(struct conn *c, void *data, size_t n);
void desk_close(struct conn *c);

#endif
