/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stream_internal.h"

#include <limits.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

/* Space is given back to the writer in such pieces while much is read. */
enum { PIECE = 64 * 1024 };

/* One recvmsg call. */
struct call {
	struct smc_stream *s;
	struct cursor c;
	bool peek, discard; /* MSG_PEEK, MSG_TRUNC (TCP: throw away) */
	int tcp_flags;	    /* for the kernel */
	bool over;	    /* the kernel's answer is the last word: end-of-file, or an error */
	ssize_t answer;
};

static void deliver(struct call *k, void *base, size_t n)
{
	if (k->discard)
		smc_cursor_advance(&k->c, n);
	else
		smc_cursor_copy(&k->c, base, n, false);
}

/* From TCP, at most `max` bytes, without waiting. Returns bytes, 0 when there is nothing to get now. */
static size_t take_tcp(struct call *k, size_t max)
{
	struct iovec iov[CURSOR_SLOTS];
	struct msghdr msg = smc_cursor_msg(&k->c, iov, CURSOR_SLOTS, max);
	ssize_t n = smc_sys.recvmsg(k->s->fd, &msg, k->tcp_flags | MSG_DONTWAIT);

	if (n > 0) {
		smc_cursor_advance(&k->c, (size_t)n);
		if (!k->peek)
			count(&k->s->stats->rx[SMC_CARRIER_TCP], (size_t)n);
		return (size_t)n;
	}
	if (n != -EAGAIN) {
		k->over = true;
		k->answer = n;
	}
	return 0;
}

/* Copies out of the channel; false when it turned out that these bytes will come over TCP instead. */
static bool take_piece(struct call *k, struct iovec bytes[2], size_t n)
{
	struct cursor before = k->c;
	size_t first = n < bytes[0].iov_len ? n : bytes[0].iov_len;

	deliver(k, bytes[0].iov_base, first);
	if (n > first)
		deliver(k, bytes[1].iov_base, n - first);
	if (k->peek || k->s->channel->ops->rx_consume(k->s->channel, n))
		return true;
	k->c = before;
	return false;
}

/* The channel is empty and the kernel socket had an event: did the peer die? */
static bool peer_is_dead(struct call *k)
{
	struct iovec bytes[2];
	size_t sum;

	/* what it wrote before it went is there by now */
	return smc_stream_fin(k->s) &&
	       k->s->channel->ops->rx_peek(k->s->channel, true, bytes, &sum) == SMC_RX_OPEN && !sum;
}

/* The writer froze, and is writing to TCP what was there to be read a moment ago. It is given that moment, so that bytes
 * the application was told of do not vanish: one, as poll may have told, or those that MSG_PEEK or FIONREAD did. A writer
 * that is stopped, or is starved of CPU for longer, would make every call wait, and TCP may have no room for all of
 * them: there is an end to it. */
enum { RESENT_NS = 1000 * 1000 * 1000, NO_MORE_NS = 50 * 1000 * 1000 };

static void await_resent(struct smc_stream *s, size_t bytes)
{
	size_t told = atomic_load_explicit(&s->end->rx_told, relaxed), wanted = told > bytes ? bytes : told;
	uint64_t now = smc_now_ns(), deadline = now + RESENT_NS;
	int queued = 0, before = 0;

	if (!wanted)
		wanted = bytes ? 1 : 0;
	for (; wanted && now < deadline; now = smc_now_ns()) {
		struct pollfd p = { .fd = s->fd, .events = POLLIN };
		if (smc_sys.ioctl(s->fd, SIOCINQ, &queued) < 0 || (size_t)queued >= wanted)
			return;
		if (queued > before)
			deadline = now + NO_MORE_NS;
		before = queued;
		/* some are there: nothing wakes a poll for the rest */
		if (queued)
			smc_sys.poll(NULL, 0, 1);
		else if (smc_sys.poll(&p, 1, (int)((deadline - now) / 1000000)) > 0 && (p.revents & (POLLHUP | POLLERR)))
			return;
	}
}

/* `n` bytes of the channel were taken, or peeked at. */
static void note_told(struct call *k, size_t n)
{
	_Atomic uint64_t *told = &k->s->end->rx_told;
	uint64_t old = atomic_load_explicit(told, relaxed);

	if (k->peek)
		smc_stream_tell(k->s, n);
	else if (old)
		atomic_store_explicit(told, old > n ? old - n : 0, relaxed);
}

static size_t take_fast(struct call *k)
{
	struct smc_stream *s = k->s;
	struct smc_channel *ch = s->channel;
	size_t taken = 0;

	while (k->c.left) {
		struct iovec bytes[2];
		size_t n;
		enum smc_rx_state state = ch->ops->rx_peek(ch, k->peek, bytes, &n);

		if (state == SMC_RX_TORN) {
			smc_stream_set_reason(s, SMC_REASON_PEER_TORN);
			smc_sys.shutdown(k->s->fd, SHUT_RDWR);
			k->over = true;
			k->answer = -ECONNRESET;
			break;
		}
		if (state == SMC_RX_FROZEN) {
			await_resent(s, n);
			smc_stream_set_rx(s, SMC_RX_BACK);
			smc_stream_set_reason(s, SMC_REASON_PEER_LEFT);
			break;
		}
		if (state == SMC_RX_FINISHED && !n) {
			smc_stream_set_rx(s, SMC_RX_BACK);
			smc_stream_set_reason(s, SMC_REASON_PEER_LEFT);
			break;
		}
		if (n > k->c.left)
			n = k->c.left;
		if (n > PIECE && !k->peek)
			n = PIECE;
		if (!n) {
			if ((atomic_load_explicit(&s->end->tcp_event, relaxed) & SMC_EVENT_RX) &&
			    peer_is_dead(k))
				smc_stream_mourn(s);
			break;
		}
		if (!k->discard &&
		    smc_bad_pointer(k->c.iov->iov_len > k->c.skip ? k->c.iov->iov_base : &n)) {
			k->over = true;
			k->answer = -EFAULT;
			break;
		}
		if (!take_piece(k, bytes, n))
			continue; /* frozen: the next look says so */
		taken += n;
		note_told(k, n);
		if (k->peek)
			break;
	}
	if (taken && !k->peek)
		count(&s->stats->rx[ch->ops->carrier], taken);
	return taken;
}

/* The writer opened at X: how much of TCP is before it? */
static void see_opened(struct smc_stream *s, uint64_t opened)
{
	struct smc_end *end = s->end;

	end->tcp_left = opened - end->tcp_read;
	smc_stream_set_rx(s, end->tcp_left ? SMC_RX_DRAIN : SMC_RX_FAST);
}

static size_t take_drain(struct call *k)
{
	struct smc_end *end = k->s->end;
	size_t n = take_tcp(k, k->c.left < end->tcp_left ? k->c.left : (size_t)end->tcp_left);

	if (k->peek)
		return n == end->tcp_left ? n + take_fast(k) : n;
	end->tcp_left -= n;
	if (!end->tcp_left)
		smc_stream_set_rx(k->s, SMC_RX_FAST);
	return n;
}

/* With the rx lock: one step. Bytes delivered; sets `over` at end-of-file or error. */
static size_t step(struct call *k)
{
	struct smc_stream *s = k->s;
	uint64_t opened;
	size_t n;

	switch (rx_mode(s)) {
	case SMC_RX_TCP:
		if (s->end->rx_promised && s->channel->ops->rx_opened(s->channel, &opened)) {
			see_opened(s, opened);
			return step(k);
		}
		n = take_tcp(k, k->c.left);
		if (!k->peek)
			s->end->tcp_read += n;
		return n;
	case SMC_RX_DRAIN:
		return take_drain(k);
	case SMC_RX_FAST:
		return take_fast(k);
	default: /* found BACK: the caller goes to the kernel */
		return 0;
	}
}

/* Is there something for a reader that sleeps? (without asking the kernel) `seen` bytes are known to be there, and
 * not enough (MSG_PEEK). */
static bool something(struct smc_stream *s, size_t seen)
{
	struct iovec bytes[2];
	uint64_t opened;
	size_t n;

	switch (rx_mode(s)) {
	case SMC_RX_TCP:
		return s->end->rx_promised && s->channel->ops->rx_opened(s->channel, &opened);
	case SMC_RX_FAST:
		return s->channel->ops->rx_peek(s->channel, seen != 0, bytes, &n) != SMC_RX_OPEN ||
		       n > seen;
	case SMC_RX_DRAIN:
		return false;
	default:
		return true;
	}
}

/*
 * A reader that only reads, small messages faster than they are written, would take the writer's cache lines away
 * for each of them, at several times the cost of writing one. After a streak of waits with nothing sent
 * between (so nobody waits for an answer) it lets some come together.
 */
enum { STREAK = 32, GATHER_NS = 500 };

static bool only_reads(struct smc_stream *s)
{
	struct smc_end *end = s->end;
	uint64_t sent = atomic_load_explicit(&s->stats->tx[s->channel->ops->carrier], relaxed);
	uint32_t streak = atomic_load_explicit(&end->rx_streak, relaxed);

	streak = sent != atomic_load_explicit(&end->rx_sent_seen, relaxed) ? 0
		 : streak < STREAK					   ? streak + 1
									   : streak;
	atomic_store_explicit(&end->rx_sent_seen, sent, relaxed);
	atomic_store_explicit(&end->rx_streak, streak, relaxed);
	return streak == STREAK;
}

static bool spin_for_bytes(struct smc_stream *s, size_t seen)
{
	struct smc_spin spin;
	bool found, gather = only_reads(s);

	if (!smc_spin_begin(&spin, &s->end->rx_spin, s->channel->peer_cpu(s->channel), UINT64_MAX))
		return false;
	if (gather)
		smc_spin_pause(&spin, GATHER_NS);
	do
		found = something(s, seen);
	while (!found && smc_spin_on(&spin));
	smc_spin_end(&spin, found);
	return found;
}

static int wait_rx(struct smc_stream *s, size_t seen, uint64_t deadline)
{
	struct smc_waiter *w = s->channel->rx_wait;

	if (rx_mode(s) == SMC_RX_BACK)
		return smc_stream_sleep_tcp(s->fd, POLLIN, deadline);
	if (rx_mode(s) == SMC_RX_FAST && spin_for_bytes(s, seen))
		return 0;
	uint32_t seq = atomic_load(&w->seq);
	atomic_fetch_and(&s->end->tcp_event, ~(uint32_t)SMC_EVENT_RX);
	atomic_fetch_or(&w->flags, SMC_WAIT_FUTEX);
	/* The service thread tells of what happens to the kernel socket from here on; look at what did before. */
	struct pollfd p = { .fd = s->fd, .events = seen ? POLLRDHUP : POLLIN | POLLRDHUP };
	if (something(s, seen) || atomic_load(&s->end->rx_shut))
		return 0;
	if (smc_sys.poll(&p, 1, 0) > 0) {
		atomic_fetch_or(&s->end->tcp_event, SMC_EVENT_RX);
		return 0;
	}
	return smc_stream_sleep(s, w, seq, deadline);
}

/* How many bytes must be there before a waiting call returns. */
static size_t enough(struct smc_stream *s, size_t wanted, int flags)
{
	uint32_t low = atomic_load_explicit(&s->end->rcvlowat, relaxed);

	if (flags & MSG_WAITALL)
		return wanted;
	return low > wanted ? wanted : low ? low : 1;
}

/* What can be peeked at now is all there will ever be in the channel. */
static bool nothing_follows(struct smc_stream *s)
{
	struct iovec bytes[2];
	size_t sum;

	return rx_mode(s) == SMC_RX_FAST &&
	       (s->channel->ops->rx_peek(s->channel, true, bytes, &sum) == SMC_RX_FINISHED ||
		smc_stream_fin(s));
}

/* TCP has the rest of the stream: the kernel ends the call, waiting or not, with the flags as they were. */
static ssize_t finish_in_kernel(struct call *k, struct msghdr *msg, int flags, size_t got)
{
	struct smc_stream *s = k->s;
	struct iovec iov[CURSOR_SLOTS];
	struct msghdr rest = smc_cursor_msg(&k->c, iov, CURSOR_SLOTS, k->c.left);

	if (!got && !k->peek && k->c.left && atomic_load(&s->end->peer_died)) {
		int queued = 0;
		smc_sys.ioctl(s->fd, SIOCINQ, &queued);
		if (!queued && atomic_exchange(&s->end->reset_due, 0))
			return -ECONNRESET;
	}
	if (got >= enough(s, got + k->c.left, flags))
		flags |= MSG_DONTWAIT;
	ssize_t n = smc_sys.recvmsg(s->fd, got ? &rest : msg, flags);
	if (n > 0 && !k->peek)
		count(&s->stats->rx[SMC_CARRIER_TCP], (size_t)n);
	if (!got)
		return n;
	msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
	msg->msg_controllen = 0;
	msg->msg_namelen = 0;
	return (ssize_t)got + (n > 0 ? n : 0);
}

ssize_t smc_stream_recv(struct smc_stream *s, struct msghdr *msg, int flags)
{
	struct smc_end *end = s->end;
	struct call k = { .s = s };
	struct smc_guard guard;
	size_t got = 0, wanted;
	uint64_t deadline = 0;
	int r;

	if (!atomic_load_explicit(&end->rx_promised, relaxed))
		smc_stream_promise(s, true); /* the kernel's counters would not stand still before */
	if (flags & (MSG_OOB | MSG_ERRQUEUE))
		return smc_sys.recvmsg(s->fd, msg, flags);
	if ((r = smc_cursor_init(&k.c, msg, true)))
		return r;
	k.peek = flags & MSG_PEEK;
	k.discard = flags & MSG_TRUNC;
	k.tcp_flags = flags & (MSG_PEEK | MSG_TRUNC | MSG_NOSIGNAL);
	wanted = k.c.left;
	bool wait = !(flags & MSG_DONTWAIT) && !atomic_load_explicit(&end->nonblock, relaxed);
	uint64_t timeout = atomic_load_explicit(&end->rcvtimeo_ns, relaxed);
	if (wait && timeout)
		deadline = deadline_after(timeout);
	size_t target = enough(s, wanted, flags);
	struct cursor start = k.c;

	for (;;) {
		if (rx_mode(s) == SMC_RX_BACK)
			return finish_in_kernel(&k, msg, flags, k.peek ? 0 : got);
		if (!smc_enter(&end->rx_lock, &guard))
			return -EAGAIN;
		if (k.peek) {
			k.c = start;
			got = 0;
		}
		do {
			size_t n = step(&k);
			got += n;
			if (!n || k.peek)
				break;
			/* the kernel ends a read for reasons of its own (urgent data): one call to it, one answer */
		} while (k.c.left && (got < target || rx_mode(s) == SMC_RX_FAST));
		smc_leave(&end->rx_lock, &guard);
		r = 0;
		if (got && !k.peek && k.c.left && rx_mode(s) == SMC_RX_BACK)
			continue; /* came down in the middle: what follows is there, in TCP */
		if (k.over || (got >= target && (wanted || wait || smc_stream_unread(s))))
			break;
		if (atomic_load_explicit(&end->rx_shut, relaxed) && rx_mode(s) != SMC_RX_BACK)
			break;
		r = -EAGAIN;
		if (k.peek && got && nothing_follows(s))
			break;
		if (rx_mode(s) != SMC_RX_BACK &&
		    (!wait || (r = wait_rx(s, k.peek ? got : 0,
					   got && !k.peek && !deadline ? SMC_FAR : deadline))))
			break;
	}
	msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
	msg->msg_controllen = 0;
	msg->msg_namelen = 0;
	if (got)
		return (ssize_t)got;
	if (!wanted)
		return r == -EAGAIN && !wait ? r : 0;
	return k.over ? k.answer : r;
}
