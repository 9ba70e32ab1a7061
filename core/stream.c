/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stream_internal.h"

#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>

/* tcpi_state, kernel ABI (include/net/tcp_states.h); netinet/tcp.h has them but clashes with linux/tcp.h */
enum { TCP_ESTABLISHED = 1, TCP_TIME_WAIT = 6, TCP_CLOSE = 7, TCP_CLOSE_WAIT = 8, TCP_LAST_ACK = 9, TCP_CLOSING = 11 };

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

/* ---- exact offsets from the kernel ---- */

static int tcp_info(int fd, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);
	int r = smc_sys.getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len);

	if (r < 0)
		return r;
	/* the counters came with Linux 4.1 and 4.6 */
	return len >= offsetof(struct tcp_info, tcpi_notsent_bytes) + sizeof(info->tcpi_notsent_bytes) ? 0 : -ENOSYS;
}

int smc_stream_tcp_written(const struct smc_stream *s, uint64_t *offset, bool *held_back)
{
	struct tcp_info before, after = { 0 };
	int queued, r;

	/* acknowledged + still queued; the acknowledgements must not move between the two questions */
	r = tcp_info(s->fd, &before);
	for (int i = 0; i < 16 && !r; i++) {
		if ((r = smc_sys.ioctl(s->fd, SIOCOUTQ, &queued)) < 0 || (r = tcp_info(s->fd, &after)) < 0)
			break;
		if (before.tcpi_bytes_acked == after.tcpi_bytes_acked) {
			if (after.tcpi_state != TCP_ESTABLISHED)
				return -ENOTCONN;
			*offset = after.tcpi_bytes_acked + (uint64_t)queued - s->connector;
			*held_back = after.tcpi_notsent_bytes != 0;
			return 0;
		}
		before = after;
	}
	return r < 0 ? r : -EAGAIN;
}

int smc_stream_tcp_read(int fd, uint64_t *offset)
{
	struct tcp_info before, after = { 0 };
	int queued, r;

	r = tcp_info(fd, &before);
	for (int i = 0; i < 16 && !r; i++) {
		if ((r = smc_sys.ioctl(fd, SIOCINQ, &queued)) < 0 || (r = tcp_info(fd, &after)) < 0)
			break;
		if (before.tcpi_bytes_received == after.tcpi_bytes_received) {
			/* a FIN would be counted too */
			if (after.tcpi_state != TCP_ESTABLISHED)
				return -ENOTCONN;
			*offset = after.tcpi_bytes_received - (uint64_t)queued;
			return 0;
		}
		before = after;
	}
	return r < 0 ? r : -EAGAIN;
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

static int int_option(int fd, int level, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);

	return smc_sys.getsockopt(fd, level, name, &value, &len) < 0 ? 0 : value;
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
	atomic_store(&end->rcvlowat, (uint32_t)int_option(s->fd, SOL_SOCKET, SO_RCVLOWAT));
	atomic_store(&end->corked, int_option(s->fd, IPPROTO_TCP, TCP_CORK) != 0);
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

/* ---- going down ---- */

bool smc_stream_fin(struct smc_stream *s)
{
	struct tcp_info info;

	if (tcp_info(s->fd, &info))
		return true;
	switch (info.tcpi_state) {
	case TCP_CLOSE:
	case TCP_CLOSE_WAIT:
	case TCP_CLOSING:
	case TCP_LAST_ACK:
	case TCP_TIME_WAIT:
		return true;
	}
	return false;
}

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

	if (int_option(s->fd, SOL_SOCKET, SO_SNDBUF) < room)
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

/* Bytes in the channel that nobody would write to TCP: their writer finished, or died. */
static bool rx_has_last_bytes(struct smc_stream *s)
{
	struct iovec bytes[2];
	size_t sum;
	enum smc_rx_state state;

	if (rx_mode(s) != SMC_RX_FAST)
		return false;
	state = s->channel->ops->rx_peek(s->channel, true, bytes, &sum);
	return sum && (state == SMC_RX_FINISHED || (state == SMC_RX_OPEN && smc_stream_fin(s)));
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
	struct smc_guard guard;
	struct iovec bytes[2];
	size_t sum = 0;

	if (!c)
		return;
	tx_forget_dead(s);
	tx_end(s);
	bool inside = !smc_enter(&s->end->rx_lock, &guard);
	enum smc_rx_state state =
		rx_mode(s) == SMC_RX_FAST ? c->ops->rx_peek(c, true, bytes, &sum) : SMC_RX_FROZEN;
	if ((state == SMC_RX_OPEN || state == SMC_RX_FINISHED) && sum) {
		/* TCP answers a close with unread bytes by a reset: let the kernel do so */
		struct linger hard = { .l_onoff = 1, .l_linger = 0 };
		smc_sys.setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	}
	if (!inside)
		smc_leave(&s->end->rx_lock, &guard);
	c->ops->rx_close(c);
}
