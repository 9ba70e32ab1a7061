/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stream_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <fcntl.h>
#include <limits.h>

/* ---- state and what is told of it ---- */

void smc_stream_set_reason(struct smc_stream *s, enum smc_reason reason)
{
	atomic_store_explicit(&s->stats->reason, reason, relaxed);
}

static void update_reason(struct smc_stream *s)
{
	if (tx_mode(s) == SMC_TX_FAST && rx_mode(s) == SMC_RX_FAST)
		smc_stream_set_reason(s, SMC_REASON_NONE);
}

void smc_stream_set_tx(struct smc_stream *s, enum smc_tx_mode mode)
{
	bool fast = mode == SMC_TX_FAST;

	if (fast != (tx_mode(s) == SMC_TX_FAST))
		atomic_fetch_add_explicit(fast ? &s->stats->ups : &s->stats->downs, 1, relaxed);
	atomic_store_explicit(&s->end->tx_mode, mode, relaxed);
	atomic_store_explicit(&s->stats->tx_carrier, fast ? s->channel->ops->carrier : SMC_CARRIER_TCP, relaxed);
	update_reason(s);
}

void smc_stream_set_rx(struct smc_stream *s, enum smc_rx_mode mode)
{
	bool fast = mode == SMC_RX_FAST;

	if (fast != (rx_mode(s) == SMC_RX_FAST))
		atomic_fetch_add_explicit(fast ? &s->stats->ups : &s->stats->downs, 1, relaxed);
	atomic_store_explicit(&s->end->rx_mode, mode, relaxed);
	atomic_store_explicit(&s->stats->rx_carrier, fast ? s->channel->ops->carrier : SMC_CARRIER_TCP, relaxed);
	update_reason(s);
}

/* ---- attaching ---- */

static uint64_t timeout_ns(int fd, int name)
{
	struct timeval t = { 0 };
	socklen_t len = sizeof(t);

	if (smc_sys.getsockopt(fd, SOL_SOCKET, name, &t, &len) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

int smc_stream_attach(struct smc_stream *s, struct smc_channel *channel)
{
	struct smc_end *end = s->end;
	int flags = smc_sys.fcntl(s->fd, F_GETFL, 0);

	if (flags < 0)
		return flags;
	atomic_store(&end->nonblock, (flags & O_NONBLOCK) != 0);
	atomic_store(&end->rcvtimeo_ns, timeout_ns(s->fd, SO_RCVTIMEO));
	atomic_store(&end->sndtimeo_ns, timeout_ns(s->fd, SO_SNDTIMEO));
	atomic_store(&end->rcvlowat, (uint32_t)smc_stream_option(s->fd, SOL_SOCKET, SO_RCVLOWAT));
	atomic_store(&end->corked, smc_stream_option(s->fd, IPPROTO_TCP, TCP_CORK) != 0);
	atomic_store_explicit(&s->stats->ring_tx, channel->tx_size, relaxed);
	atomic_store_explicit(&s->stats->ring_rx, channel->rx_size, relaxed);
	smc_stream_set_reason(s, SMC_REASON_SWITCHING);
	atomic_store(&end->attached, 1);
	/* from here on, calls that begin go through the stream (pairs with the caller's count of plain calls) */
	__atomic_store_n(&s->channel, channel, __ATOMIC_SEQ_CST);
	smc_stream_promise(s, false);
	return 0;
}

void smc_stream_leave_unseen(struct smc_stream *s, bool tx)
{
	if (tx) {
		s->channel->ops->tx_freeze(s->channel);
		smc_stream_set_tx(s, SMC_TX_BACK);
	} else {
		s->channel->ops->rx_freeze(s->channel);
		smc_stream_set_rx(s, SMC_RX_BACK);
	}
	smc_stream_set_reason(s, SMC_REASON_UNSEEN);
}

void smc_stream_promise(struct smc_stream *s, bool reads)
{
	struct smc_end *end = s->end;
	struct smc_guard guard;
	uint64_t offset;

	if (!__atomic_load_n(&s->channel, __ATOMIC_SEQ_CST) ||
	    atomic_load_explicit(&end->rx_promised, relaxed) || atomic_load(&s->rx_calls) ||
	    (!reads && !atomic_load(&end->tcp_read)))
		return;
	if (!smc_enter(&end->rx_lock, &guard))
		return;
	if (!end->rx_promised && rx_mode(s) == SMC_RX_TCP && !smc_stream_tcp_read(s->fd, &offset)) {
		if (offset != end->tcp_read) {
			smc_stream_leave_unseen(s, false);
		} else {
			atomic_store_explicit(&end->rx_promised, 1, relaxed);
			s->channel->ops->rx_ready(s->channel);
		}
	}
	smc_leave(&end->rx_lock, &guard);
}

/* ---- waiting ---- */

int smc_stream_sleep(struct smc_stream *s, struct smc_waiter *w, uint32_t seq, uint64_t deadline)
{
	struct timespec timeout, *t = NULL;

	if (deadline) {
		uint64_t now = smc_now_ns();
		if (now >= deadline)
			return -EAGAIN;
		timeout.tv_sec = (time_t)((deadline - now) / 1000000000u);
		timeout.tv_nsec = (long)((deadline - now) % 1000000000u);
		t = &timeout;
	}
	if (smc_wait_totals)
		atomic_fetch_add_explicit(&smc_wait_totals->sleeps, 1, relaxed);
	/* Without a timeout the kernel restarts the wait after a handler with SA_RESTART, with one it never
	 * does: the rules of recv and send with and without SO_RCVTIMEO and SO_SNDTIMEO. */
	int r = smc_sys.sleep(&w->seq, seq, t, &s->sleepers);
	return r == -EINTR ? -EINTR : 0;
}

int smc_stream_sleep_tcp(int fd, short events, uint64_t deadline)
{
	int ms = -1;

	if (deadline) {
		uint64_t now = smc_now_ns();
		if (now >= deadline)
			return -EAGAIN;
		uint64_t left = (deadline - now + 999999) / 1000000;
		ms = left > INT_MAX ? INT_MAX : (int)left;
	}
	struct pollfd p = { .fd = fd, .events = events };
	int r = smc_sys.poll(&p, 1, ms);
	return r == -EINTR ? -EINTR : 0;
}

/* Whatever the flags say: the peer may have died between clearing one and waking. */
static void wake_local(struct smc_waiter *w)
{
	atomic_fetch_add(&w->seq, 1);
	smc_sys.futex_wake(&w->seq, INT_MAX);
}

void smc_stream_tcp_event(struct smc_stream *s)
{
	struct smc_channel *c = __atomic_load_n(&s->channel, __ATOMIC_ACQUIRE);

	atomic_store(&s->end->tcp_event, SMC_EVENT_RX | SMC_EVENT_TX);
	if (!c)
		return;
	wake_local(c->rx_wait);
	wake_local(c->tx_wait);
}
