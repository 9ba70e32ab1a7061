/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stream_internal.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#define READ_BITS (POLLIN | POLLRDNORM)
#define WRITE_BITS (POLLOUT | POLLWRNORM) /* TCP never says POLLWRBAND */

/* All of TCP that comes before the channel was read, and there are bytes in the channel: a read finds out. */
static bool opens_next(struct smc_stream *s)
{
	const struct smc_channel_ops *ops = s->channel->ops;
	struct iovec bytes[2];
	uint64_t opened;
	size_t n;

	if (rx_mode(s) != SMC_RX_TCP || !s->end->rx_promised || !ops->rx_opened(s->channel, &opened))
		return false;
	return opened == s->end->tcp_read && ops->rx_peek(s->channel, true, bytes, &n) != SMC_RX_FROZEN && n;
}

/* What the channel says about reading: READ_BITS or nothing. *kernel: ask the kernel socket too. */
static short rx_bits(struct smc_stream *s, bool *kernel)
{
	struct iovec bytes[2];
	size_t n;

	if (rx_mode(s) != SMC_RX_FAST) {
		*kernel = true;
		return opens_next(s) ? READ_BITS : 0;
	}
	if (s->channel->ops->rx_peek(s->channel, true, bytes, &n) != SMC_RX_OPEN)
		*kernel = true;
	uint32_t low = atomic_load_explicit(&s->end->rcvlowat, relaxed);
	if (low > s->channel->rx_size / 2)
		low = s->channel->rx_size / 2;
	if (!n || n < low)
		return 0;
	if (low > 1)
		smc_stream_tell(s, low);
	return READ_BITS;
}

static short tx_bits(struct smc_stream *s, bool *kernel)
{
	struct iovec room[2];

	switch (tx_mode(s)) {
	case SMC_TX_FAST:
		if (s->channel->ops->tx_flags(s->channel))
			return WRITE_BITS; /* a write finds out */
		return s->channel->ops->tx_reserve(s->channel, room) >= smc_channel_low_water(s->channel) ? WRITE_BITS : 0;
	case SMC_TX_RESEND:
		return 0;
	default:
		*kernel = true;
		return 0;
	}
}

/* The kernel's view, with its write bits only where it is the kernel that takes the bytes. */
static short kernel_bits(struct smc_stream *s)
{
	struct pollfd p = { .fd = s->fd, .events = READ_BITS | POLLPRI | POLLRDBAND | POLLRDHUP | POLLOUT | POLLWRNORM };

	atomic_fetch_and(&s->end->tcp_event, ~(uint32_t)SMC_EVENT_RX);
	if (smc_sys.poll(&p, 1, 0) < 0)
		return 0;
	if (p.revents & (READ_BITS | POLLPRI | POLLRDHUP | POLLERR | POLLHUP))
		atomic_fetch_or(&s->end->tcp_event, SMC_EVENT_RX);
	uint32_t tx = tx_mode(s);
	if ((tx == SMC_TX_FAST || tx == SMC_TX_RESEND) && !(p.revents & (POLLERR | POLLHUP)))
		p.revents &= ~WRITE_BITS;
	return p.revents;
}

static short look(struct smc_stream *s)
{
	bool kernel = (atomic_load_explicit(&s->end->tcp_event, relaxed) & SMC_EVENT_RX) ||
		      atomic_load_explicit(&s->end->rx_shut, relaxed);
	short bits = (short)(rx_bits(s, &kernel) | tx_bits(s, &kernel));

	return kernel ? (short)(bits | kernel_bits(s)) : bits;
}

short smc_stream_poll(struct smc_stream *s, short events, bool arm)
{
	short mask = (short)(events | POLLERR | POLLHUP | POLLNVAL);
	short bits = look(s) & mask;
	bool again = false;

	if (!arm)
		return bits;
	if ((events & READ_BITS) && !(bits & READ_BITS) && rx_mode(s) != SMC_RX_BACK) {
		atomic_fetch_or(&s->channel->rx_wait->flags, SMC_WAIT_BELL);
		again = true;
	}
	if ((events & WRITE_BITS) && !(bits & WRITE_BITS) && tx_mode(s) == SMC_TX_FAST) {
		atomic_fetch_or(&s->channel->tx_wait->flags, SMC_WAIT_BELL);
		again = true;
	}
	/* the flag first, then the look: the peer does it the other way round */
	return again ? (short)(look(s) & mask) : bits;
}

/* Bytes before `opened`, where the channel begins, that are not read yet. */
static uint64_t tcp_before(const struct smc_stream *s, uint64_t opened)
{
	switch (rx_mode(s)) {
	case SMC_RX_TCP:
		return opened - s->end->tcp_read;
	case SMC_RX_DRAIN:
		return s->end->tcp_left;
	default:
		return 0;
	}
}

long smc_stream_unread(struct smc_stream *s)
{
	struct iovec bytes[2];
	size_t n = 0;
	int queued = 0;
	uint64_t opened;

	smc_sys.ioctl(s->fd, SIOCINQ, &queued);
	if (rx_mode(s) == SMC_RX_BACK)
		return queued;
	if (s->channel->ops->rx_opened(s->channel, &opened) &&
	    s->channel->ops->rx_peek(s->channel, true, bytes, &n) == SMC_RX_FROZEN)
		n = 0; /* they come over TCP */
	/* those of the channel are behind all of TCP's, some of which may still be on their way */
	if (n && (uint64_t)queued < tcp_before(s, opened))
		n = 0;
	smc_stream_tell(s, n);
	return queued + (long)n;
}

long smc_stream_unsent(struct smc_stream *s)
{
	struct iovec room[2];
	int queued = 0;

	smc_sys.ioctl(s->fd, SIOCOUTQ, &queued);
	if (tx_mode(s) != SMC_TX_FAST)
		return queued;
	/* TCP counts what the peer's kernel has not taken; half of the ring stands for the peer's receive buffer */
	size_t used = s->channel->tx_size - s->channel->ops->tx_reserve(s->channel, room), taken = s->channel->tx_size / 2;
	return queued + (long)(used > taken ? used - taken : 0);
}
