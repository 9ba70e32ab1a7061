/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stream_internal.h"

#include <linux/sock_diag.h>

/* Back to TCP: because somebody leaves, shuts down or closes, or because the peer died. */

bool smc_stream_peer_gone(struct smc_stream *s)
{
	struct smc_channel *c = s->channel;
	struct iovec bytes[2];
	size_t sum;

	if (atomic_load(&s->end->peer_died) || (c->ops->tx_flags(c) & SMC_PEER_CLOSED))
		return true;
	if (!smc_stream_fin(s))
		return false;
	/* what it wrote may still be there to read; one that shut down has frozen or finished it */
	return rx_mode(s) != SMC_RX_BACK && c->ops->rx_peek(c, true, bytes, &sum) == SMC_RX_OPEN;
}

void smc_stream_tx_died(struct smc_stream *s)
{
	struct iovec bytes[2];

	atomic_store(&s->end->peer_died, 1);
	if (tx_mode(s) != SMC_TX_FAST)
		return;
	smc_stream_tx_down(s, SMC_REASON_PEER_LEFT);
	if (!s->channel->ops->tx_unread(s->channel, s->end->resend_at, bytes)) {
		smc_stream_set_tx(s, SMC_TX_BACK);
		return;
	}
	/* The dead end's kernel answers bytes with a reset, as it would have sent one for the unread. The error is
	 * ours to tell, for the FIN came first; until then the mode stays RESEND. */
	atomic_store(&s->end->reset_due, 1);
	smc_stream_resend(s);
	smc_stream_set_tx(s, SMC_TX_RESEND);
}

void smc_stream_mourn(struct smc_stream *s)
{
	struct smc_guard guard;

	if (!smc_enter(&s->end->tx_lock, &guard))
		return;
	smc_stream_tx_died(s);
	smc_leave(&s->end->tx_lock, &guard);
	smc_stream_set_rx(s, SMC_RX_BACK);
	smc_stream_set_reason(s, SMC_REASON_PEER_LEFT);
}

bool smc_stream_resend(struct smc_stream *s)
{
	struct smc_end *end = s->end;
	struct iovec bytes[2];
	size_t n;

	while ((n = s->channel->ops->tx_unread(s->channel, end->resend_at, bytes))) {
		struct msghdr msg = { .msg_iov = bytes, .msg_iovlen = 2 };
		ssize_t sent = smc_sys.sendmsg(s->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent == -EAGAIN || sent == -EINTR || sent == -ENOBUFS || sent == -ENOMEM)
			return false;
		if (sent < 0)
			break; /* the peer is gone: the application's next call gets the error */
		end->resend_at += (uint64_t)sent;
		count(&s->stats->tx[SMC_CARRIER_TCP], (size_t)sent);
	}
	smc_stream_set_tx(s, SMC_TX_BACK);
	return true;
}

bool smc_stream_progress(struct smc_stream *s)
{
	struct smc_guard guard;
	bool more = false;

	if (!__atomic_load_n(&s->channel, __ATOMIC_ACQUIRE) || !smc_enter(&s->end->tx_lock, &guard))
		return false;
	if (tx_mode(s) == SMC_TX_FAST && s->channel->ops->tx_flags(s->channel) & SMC_PEER_FROZEN)
		smc_stream_tx_down(s, SMC_REASON_PEER_LEFT);
	if (tx_mode(s) == SMC_TX_RESEND && !atomic_load(&s->end->reset_due))
		more = !smc_stream_resend(s);
	smc_leave(&s->end->tx_lock, &guard);
	return more;
}

void smc_stream_tx_down(struct smc_stream *s, enum smc_reason reason)
{
	s->end->resend_at = s->channel->ops->tx_freeze(s->channel);
	smc_stream_set_tx(s, SMC_TX_RESEND);
	smc_stream_set_reason(s, reason);
}

/* Room for all of the ring in the socket's send queue, so that the peer need not be awake. */
static void make_room(struct smc_stream *s)
{
	int room = (int)s->channel->tx_size * 2;

	if (smc_stream_option(s->fd, SOL_SOCKET, SO_SNDBUF) < room)
		smc_sys.setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
}

/* Will the send queue take what the peer has not taken? The kernel counts its own overhead, too, and grants no more
 * than net.core.wmem_max. */
static bool queue_takes_rest(struct smc_stream *s)
{
	uint32_t memory[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(memory);
	struct iovec room[2];
	size_t rest = s->channel->tx_size - s->channel->ops->tx_reserve(s->channel, room);

	if (!rest || smc_sys.getsockopt(s->fd, SOL_SOCKET, SO_MEMINFO, memory, &len) < 0)
		return true;
	return memory[SK_MEMINFO_WMEM_QUEUED] + rest + rest / 4 <= memory[SK_MEMINFO_SNDBUF];
}

/* The writer is BACK, with everything the peer has not taken in the hands of the kernel. With the tx lock, which it lets
 * go of while it waits. */
static void tx_hand_back_locked(struct smc_stream *s, enum smc_reason reason,
				struct smc_guard *guard)
{
	if (tx_mode(s) == SMC_TX_TCP) {
		/* frozen before it was opened: it can't be opened any more */
		s->channel->ops->tx_freeze(s->channel);
		smc_stream_set_tx(s, SMC_TX_BACK);
		smc_stream_set_reason(s, reason);
	} else if (tx_mode(s) == SMC_TX_FAST) {
		make_room(s);
		smc_stream_tx_down(s, reason);
	}
	while (tx_mode(s) == SMC_TX_RESEND && !smc_stream_resend(s)) {
		smc_leave(&s->end->tx_lock, guard);
		smc_stream_sleep_tcp(s->fd, POLLOUT, 0);
		smc_enter(&s->end->tx_lock, guard);
	}
}

static void tx_hand_back(struct smc_stream *s, enum smc_reason reason)
{
	struct smc_guard guard;

	if (!smc_enter(&s->end->tx_lock, &guard))
		return;
	tx_hand_back_locked(s, reason, &guard);
	smc_leave(&s->end->tx_lock, &guard);
}

/* Nothing more will be written. shutdown and close wait for nobody: what the send queue has no room for stays in the
 * channel, for the peer to take before it goes on with TCP. */
static void tx_end(struct smc_stream *s)
{
	struct smc_guard guard;

	if (!smc_enter(&s->end->tx_lock, &guard))
		return;
	if (tx_mode(s) == SMC_TX_FAST)
		make_room(s);
	if (tx_mode(s) == SMC_TX_FAST && !queue_takes_rest(s)) {
		s->channel->ops->tx_finish(s->channel);
		smc_stream_set_tx(s, SMC_TX_BACK);
		smc_stream_set_reason(s, SMC_REASON_SHUTDOWN);
	}
	tx_hand_back_locked(s, SMC_REASON_SHUTDOWN, &guard);
	smc_leave(&s->end->tx_lock, &guard);
}

/* If the peer is gone there is nothing to hand back. */
static void tx_forget_dead(struct smc_stream *s)
{
	struct smc_guard guard;

	if (!smc_enter(&s->end->tx_lock, &guard))
		return;
	if (smc_stream_peer_gone(s))
		smc_stream_set_tx(s, SMC_TX_BACK);
	smc_leave(&s->end->tx_lock, &guard);
}

/* Bytes of the channel that the reader has not taken and, unless frozen, would take there; it need not have seen yet
 * that the writer opened. */
static size_t rx_rest(struct smc_stream *s, enum smc_rx_state *state)
{
	const struct smc_channel_ops *ops = s->channel->ops;
	struct iovec bytes[2];
	uint64_t opened;
	size_t sum;

	*state = SMC_RX_FROZEN;
	if (rx_mode(s) == SMC_RX_BACK || !s->end->rx_promised || !ops->rx_opened(s->channel, &opened))
		return 0;
	*state = ops->rx_peek(s->channel, true, bytes, &sum);
	return *state == SMC_RX_OPEN || *state == SMC_RX_FINISHED ? sum : 0;
}

/* Bytes that nobody would write to TCP: their writer finished, or died. */
static bool rx_has_last_bytes(struct smc_stream *s)
{
	enum smc_rx_state state;

	return rx_rest(s, &state) && (state == SMC_RX_FINISHED || smc_stream_fin(s));
}

static void rx_hand_back(struct smc_stream *s, enum smc_reason reason)
{
	struct smc_guard guard;

	if (!smc_enter(&s->end->rx_lock, &guard))
		return;
	if (rx_mode(s) != SMC_RX_BACK && !rx_has_last_bytes(s)) {
		/* Bytes before the channel's come from TCP still, and those not taken from the channel after them. */
		s->channel->ops->rx_freeze(s->channel);
		smc_stream_set_rx(s, SMC_RX_BACK);
		smc_stream_set_reason(s, reason);
		if (s->tell_frozen)
			s->tell_frozen(s);
	}
	smc_leave(&s->end->rx_lock, &guard);
}

void smc_stream_hand_back(struct smc_stream *s, enum smc_reason reason)
{
	if (!__atomic_load_n(&s->channel, __ATOMIC_ACQUIRE))
		return;
	rx_hand_back(s, reason);
	tx_hand_back(s, reason);
	smc_stream_tcp_event(s);
}

void smc_stream_peer_process_gone(struct smc_stream *s, uint64_t deadline)
{
	struct smc_guard guard;

	if (!__atomic_load_n(&s->channel, __ATOMIC_ACQUIRE))
		return;
	/* A process that ends closes its descriptors in any order: the FIN may be a moment behind. */
	while (!smc_stream_fin(s) && smc_now_ns() < deadline)
		smc_stream_sleep_tcp(s->fd, POLLRDHUP, deadline);
	if (!smc_enter(&s->end->tx_lock, &guard))
		return;
	if (tx_mode(s) == SMC_TX_FAST && smc_stream_peer_gone(s))
		smc_stream_tx_died(s);
	else if (tx_mode(s) == SMC_TX_FAST)
		smc_stream_tx_down(s, SMC_REASON_PEER_LEFT);
	smc_leave(&s->end->tx_lock, &guard);
	smc_stream_tcp_event(s);
}

void smc_stream_shutdown(struct smc_stream *s, int how)
{
	if (!__atomic_load_n(&s->channel, __ATOMIC_ACQUIRE))
		return;
	if (how != SHUT_RD)
		tx_end(s);
	if (how != SHUT_WR)
		atomic_store(&s->end->rx_shut, 1);
}

void smc_stream_close(struct smc_stream *s)
{
	struct smc_channel *c = s->channel;
	enum smc_rx_state state;
	struct smc_guard guard;

	if (!c)
		return;
	tx_forget_dead(s);
	tx_end(s);
	bool inside = !smc_enter(&s->end->rx_lock, &guard);
	if (rx_rest(s, &state)) {
		/* TCP answers a close with unread bytes by a reset: let the kernel do so */
		struct linger hard = { .l_onoff = 1, .l_linger = 0 };
		smc_sys.setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	}
	if (!inside)
		smc_leave(&s->end->rx_lock, &guard);
	c->ops->rx_close(c);
}
