/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_CALL_H
#define SMC_PRELOAD_CALL_H

#include "preload/conn.h"
#include "preload/raw.h"
#include "preload/service.h"

/*
 * How a wrapper lets the kernel serve a call on a connection. While such a call is in progress the direction
 * cannot change carrier: the count is raised before the look at whether the connection is attached, and the
 * one who attaches does it the other way round (smc_stream_attach, smc_stream_promise).
 *
 * Usage: if (call_enter_rx(c)) { r = real.recv(...); call_leave_rx(c, r); } else { r = smc_stream_recv(...) }
 */
/* The stream serves the call. A process that inherited the connection must watch its TCP socket itself. */
static inline bool call_by_stream(struct conn *c)
{
	if (__builtin_expect(c->inherited && !atomic_load_explicit(&c->adopted, memory_order_relaxed), 0))
		service_adopt(c);
	return false;
}

static inline bool call_enter_rx(struct conn *c)
{
	if (!smc_stream_rx_plain(&c->stream))
		return call_by_stream(c);
	atomic_fetch_add(&c->stream.rx_calls, 1);
	if (__builtin_expect(smc_stream_rx_plain(&c->stream), 1))
		return true;
	atomic_fetch_sub(&c->stream.rx_calls, 1);
	smc_stream_promise(&c->stream, true); /* our count may have kept who attached from it */
	return false;
}

static inline bool call_enter_tx(struct conn *c)
{
	if (!smc_stream_tx_plain(&c->stream))
		return call_by_stream(c);
	atomic_fetch_add(&c->stream.tx_calls, 1);
	if (__builtin_expect(smc_stream_tx_plain(&c->stream), 1))
		return true;
	atomic_fetch_sub(&c->stream.tx_calls, 1);
	return false;
}

/* `n`: bytes moved, not those looked at (<= 0: none). Counted before the call is over: the one who changes the carrier
 * compares with what the kernel counted. */
static inline void call_leave_rx(struct conn *c, ssize_t n)
{
	conn_count(c, false, n);
	if (atomic_fetch_sub(&c->stream.rx_calls, 1) == 1 && __builtin_expect(conn_attached(c), 0)) {
		int saved = errno;
		smc_stream_promise(&c->stream, true);
		errno = saved;
	}
}

static inline void call_leave_tx(struct conn *c, ssize_t n)
{
	conn_count(c, true, n);
	atomic_fetch_sub(&c->stream.tx_calls, 1);
}

#endif
