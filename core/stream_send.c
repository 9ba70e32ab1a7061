/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stream_internal.h"

#include <limits.h>
enum { UIO_MAXIOV_KERNEL = 1024 }; /* the kernel's UIO_MAXIOV, part of its ABI */

/* ---- iovec lists ---- */

bool smc_bad_pointer(const void *p)
{
	return (uintptr_t)p < 4096 || (intptr_t)p < 0;
}

int smc_cursor_init(struct cursor *c, const struct msghdr *msg, bool untouched)
{
	size_t left = 0;

	if (msg->msg_iovlen > UIO_MAXIOV_KERNEL)
		return -EMSGSIZE;
	if (msg->msg_iovlen && smc_bad_pointer(msg->msg_iov))
		return -EFAULT;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		size_t len = msg->msg_iov[i].iov_len;
		if ((ssize_t)len < 0)
			return -EINVAL;
		if (len && !untouched && smc_bad_pointer(msg->msg_iov[i].iov_base))
			return -EFAULT;
		left += len > (size_t)INT_MAX - left ? (size_t)INT_MAX - left : len;
	}
	*c = (struct cursor){ .iov = msg->msg_iov, .count = msg->msg_iovlen, .left = left };
	return 0;
}

/* Steps over what is done, and over empty entries. Only while bytes are left, so an entry with some follows. */
static void next_entry(struct cursor *c)
{
	while (c->skip == c->iov->iov_len) {
		c->iov++;
		c->count--;
		c->skip = 0;
	}
}

void smc_cursor_advance(struct cursor *c, size_t n)
{
	c->left -= n;
	while (n) {
		next_entry(c);
		size_t here = c->iov->iov_len - c->skip;
		if (here > n)
			here = n;
		c->skip += here;
		n -= here;
	}
}

void smc_cursor_copy(struct cursor *c, void *base, size_t n, bool out)
{
	char *p = base;

	while (n) {
		next_entry(c);
		size_t here = c->iov->iov_len - c->skip;
		char *user = (char *)c->iov->iov_base + c->skip;
		if (here > n)
			here = n;
		if (out)
			memcpy(p, user, here);
		else
			memcpy(user, p, here);
		p += here;
		n -= here;
		c->skip += here;
		c->left -= here;
	}
}

struct msghdr smc_cursor_msg(const struct cursor *c, struct iovec *iov, size_t slots, size_t max)
{
	size_t n = 0, skip = c->skip;

	for (const struct iovec *v = c->iov; n < slots && v < c->iov + c->count && max;
	     v++, skip = 0) {
		size_t len = v->iov_len - skip;
		if (len > max)
			len = max;
		iov[n++] = (struct iovec){ (char *)v->iov_base + skip, len };
		max -= len;
	}
	return (struct msghdr){ .msg_iov = iov, .msg_iovlen = n };
}

/* ---- sending ---- */

/* Large sends are shown to the reader in such pieces, so that both ends copy at the same time. */
enum { PIECE = 32 * 1024 };

/* Flags that mean nothing to a channel: it shows bytes at once (a superset of MSG_MORE), never routes. */
#define HARMLESS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR | MSG_DONTROUTE | MSG_CONFIRM)

static bool try_open(struct smc_stream *s)
{
	struct smc_channel *c = s->channel;
	uint64_t offset;
	bool held_back;

	if (!c->ops->tx_may_open(c) || atomic_load(&s->tx_calls))
		return false;
	int r = smc_stream_tcp_written(s, &offset, &held_back);
	if (r == -ENOTCONN) { /* half closed by the peer: not worth it any more */
		c->ops->tx_freeze(c);
		smc_stream_set_tx(s, SMC_TX_BACK);
	}
	if (r)
		return false;
	if (offset != s->end->tcp_written) {
		smc_stream_leave_unseen(s, true);
		return false;
	}
	/* bytes that a cork holds back would overtake nothing, but nobody would push them out either */
	if (held_back && atomic_load_explicit(&s->end->corked, relaxed))
		return false;
	if (!c->ops->tx_open(c, offset)) {
		smc_stream_set_tx(s, SMC_TX_BACK);
		return false;
	}
	smc_stream_set_tx(s, SMC_TX_FAST);
	return true;
}

/* With the tx lock: one attempt to move bytes to TCP. */
static ssize_t send_tcp(struct smc_stream *s, struct cursor *c, int flags)
{
	struct iovec iov[CURSOR_SLOTS];
	struct msghdr msg = smc_cursor_msg(c, iov, CURSOR_SLOTS, c->left);
	ssize_t n = smc_sys.sendmsg(s->fd, &msg, flags | MSG_DONTWAIT);

	if (n > 0) {
		smc_cursor_advance(c, (size_t)n);
		count(&s->stats->tx[SMC_CARRIER_TCP], (size_t)n);
		s->end->tcp_written += (uint64_t)n;
	}
	return n;
}

/* Looks at the kernel socket when it had an event; nothing but a load otherwise. */
static bool peer_died(struct smc_stream *s)
{
	if (!(atomic_load_explicit(&s->end->tcp_event, relaxed) & SMC_EVENT_TX))
		return false;
	atomic_fetch_and(&s->end->tcp_event, ~(uint32_t)SMC_EVENT_TX);
	if (smc_stream_peer_gone(s))
		return true;
	/* a FIN whose sender's bytes are not all read yet: ask again next time */
	struct pollfd p = { .fd = s->fd, .events = POLLRDHUP };
	if (rx_mode(s) != SMC_RX_BACK && smc_sys.poll(&p, 1, 0) > 0)
		atomic_fetch_or(&s->end->tcp_event, SMC_EVENT_TX);
	return false;
}

/* With the tx lock: what fits into the channel now. May find out that the channel is over. */
static ssize_t send_fast(struct smc_stream *s, struct cursor *c)
{
	struct smc_channel *ch = s->channel;
	unsigned flags = ch->ops->tx_flags(ch);
	ssize_t moved = 0;

	if (peer_died(s)) {
		smc_stream_tx_died(s);
		return 0;
	}

	while (!flags && c->left) {
		struct iovec room[2];
		size_t n = ch->ops->tx_reserve(ch, room), first;
		if (n > c->left)
			n = c->left;
		if (n > PIECE)
			n = PIECE;
		if (!n)
			break;
		first = n < room[0].iov_len ? n : room[0].iov_len;
		smc_cursor_copy(c, room[0].iov_base, first, true);
		if (n > first)
			smc_cursor_copy(c, room[1].iov_base, n - first, true);
		flags = ch->ops->tx_commit(ch, n);
		moved += (ssize_t)n;
	}
	if (moved)
		count(&s->stats->tx[ch->ops->carrier], (size_t)moved);
	if (flags & SMC_PEER_FROZEN)
		smc_stream_tx_down(s, SMC_REASON_PEER_LEFT);
	else if (flags & SMC_PEER_CLOSED)
		smc_stream_set_tx(s, SMC_TX_BACK); /* nobody reads: the kernel gives the errors */
	return moved;
}

/* With the tx lock: one step of a call that has `moved` bytes so far. > 0 bytes moved; 0 = the mode changed, go on; -EAGAIN = must wait; other error. */
static ssize_t step(struct smc_stream *s, struct cursor *c, int flags, bool moved)
{
	ssize_t n;

	switch (tx_mode(s)) {
	case SMC_TX_TCP:
		if (try_open(s))
			return 0;
		atomic_store_explicit(&s->end->corked, (flags & MSG_MORE) != 0, relaxed);
		return send_tcp(s, c, flags);
	case SMC_TX_FAST:
		n = send_fast(s, c);
		return n || tx_mode(s) != SMC_TX_FAST ? n : -EAGAIN;
	case SMC_TX_RESEND:
		if (atomic_load_explicit(&s->end->reset_due, relaxed) &&
		    atomic_exchange(&s->end->reset_due, 0)) {
			if (moved) { /* the next call gets it */
				atomic_store(&s->end->reset_due, 1);
				return -ECONNRESET;
			}
			smc_stream_set_tx(s, SMC_TX_BACK);
			return -ECONNRESET;
		}
		return smc_stream_resend(s) ? 0 : -EAGAIN;
	default:
		return send_tcp(s, c, flags);
	}
}

static bool has_room(struct smc_stream *s)
{
	struct smc_channel *c = s->channel;
	struct iovec room[2];

	return tx_mode(s) != SMC_TX_FAST ||
	       c->ops->tx_reserve(c, room) >= smc_channel_low_water(c) || c->ops->tx_flags(c);
}

static bool spin_for_room(struct smc_stream *s)
{
	struct smc_spin spin;
	bool found;

	if (!smc_spin_begin(&spin, &s->end->tx_spin, s->channel->peer_cpu(s->channel), UINT64_MAX))
		return false;
	do
		found = has_room(s);
	while (!found && smc_spin_on(&spin));
	smc_spin_end(&spin, found);
	return found;
}

/* Waits until a FAST writer has room or must look again. */
static int wait_room(struct smc_stream *s, uint64_t deadline)
{
	struct smc_waiter *w = s->channel->tx_wait;

	if (spin_for_room(s))
		return 0;
	uint32_t seq = atomic_load(&w->seq);
	atomic_fetch_or(&w->flags, SMC_WAIT_FUTEX);
	if (has_room(s))
		return 0;
	if (smc_stream_peer_gone(s)) {
		atomic_fetch_or(&s->end->tcp_event, SMC_EVENT_TX);
		return 0;
	}
	return smc_stream_sleep(s, w, seq, deadline);
}

/* A call that does not wait came back short: from now on the reader tells of room, for who polls edge-triggered
 * may not look again until told (the kernel's SOCK_NOSPACE). True if there is room by now. */
static bool room_after_asking(struct smc_stream *s)
{
	if (tx_mode(s) != SMC_TX_FAST)
		return false;
	atomic_fetch_or(&s->channel->tx_wait->flags, SMC_WAIT_BELL);
	return has_room(s);
}

static int wait_tx(struct smc_stream *s, uint64_t deadline)
{
	if (tx_mode(s) == SMC_TX_FAST)
		return wait_room(s, deadline);
	return smc_stream_sleep_tcp(s->fd, POLLOUT, deadline);
}

ssize_t smc_stream_send(struct smc_stream *s, const struct msghdr *msg, int flags)
{
	struct smc_end *end = s->end;
	struct smc_guard guard;
	struct cursor c;
	ssize_t n, total = 0;
	int r;

	if ((flags & ~HARMLESS) || msg->msg_controllen) {
		smc_stream_hand_back(s, flags & MSG_OOB ? SMC_REASON_OOB : SMC_REASON_KERNEL_CALL);
		return smc_sys.sendmsg(s->fd, msg, flags);
	}
	if ((r = smc_cursor_init(&c, msg, false)))
		return r;
	bool wait = !(flags & MSG_DONTWAIT) && !atomic_load_explicit(&end->nonblock, relaxed);
	uint64_t timeout = atomic_load_explicit(&end->sndtimeo_ns, relaxed), deadline = 0;
	if (wait && timeout)
		deadline = deadline_after(timeout);
	if (!c.left && tx_mode(s) == SMC_TX_FAST)
		return smc_sys.sendmsg(s->fd, msg, flags); /* nothing to move: errors, or 0 */

	for (;;) {
		if (!smc_enter(&end->tx_lock, &guard))
			return total ? total : -EAGAIN;
		while ((n = step(s, &c, flags, total > 0)) >= 0) {
			total += n;
			if (!c.left)
				break;
		}
		smc_leave(&end->tx_lock, &guard);
		if (n >= 0 || n != -EAGAIN)
			break;
		if (!wait && room_after_asking(s))
			continue;
		if (!wait)
			break;
		/* with bytes in hand a signal ends the call, whatever SA_RESTART says: so the wait has an end */
		if ((n = wait_tx(s, total && !deadline ? SMC_FAR : deadline)))
			break;
	}
	return total ? total : n < 0 ? n : 0;
}
