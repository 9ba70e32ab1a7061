/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_STREAM_INTERNAL_H
#define SMC_CORE_STREAM_INTERNAL_H

#include "core/clock.h"
#include "core/log.h"
#include "core/stream.h"
#include "core/sys.h"

#include <errno.h>
#include <string.h>

/* Shared by the files of the stream: nothing here is for other layers. */

#define relaxed memory_order_relaxed

static inline uint32_t tx_mode(const struct smc_stream *s)
{
	return atomic_load_explicit(&s->end->tx_mode, relaxed);
}

static inline uint32_t rx_mode(const struct smc_stream *s)
{
	return atomic_load_explicit(&s->end->rx_mode, relaxed);
}

/* Mode changes happen with the direction's lock held. They keep the stats true. */
void smc_stream_set_tx(struct smc_stream *s, enum smc_tx_mode mode);
void smc_stream_set_rx(struct smc_stream *s, enum smc_rx_mode mode);
void smc_stream_set_reason(struct smc_stream *s, enum smc_reason reason);

static inline void count(_Atomic uint64_t *counter, size_t n)
{
	/* under the direction's lock, or not exact: plain add, no locked instruction */
	atomic_store_explicit(counter, atomic_load_explicit(counter, relaxed) + n, relaxed);
}

/* The application hears of the next `n` bytes in the channel: should they come over TCP, they must still be there. */
static inline void smc_stream_tell(struct smc_stream *s, size_t n)
{
	if (n > atomic_load_explicit(&s->end->rx_told, relaxed))
		atomic_store_explicit(&s->end->rx_told, n, relaxed);
}

/* An iovec list walked as bytes are moved. */
struct cursor {
	const struct iovec *iov;
	size_t count, skip; /* `skip` bytes of iov[0] are done */
	size_t left;
};

/* 0, or the error the kernel would give for such a list. Pointers into the first page are refused as the kernel
 * does (EFAULT); others cannot be checked without a system call. `untouched`: the memory will not be used. */
int smc_cursor_init(struct cursor *c, const struct msghdr *msg, bool untouched);
/* Copies between the list and [base, base + n), n <= left. `out`: from the list. */
void smc_cursor_copy(struct cursor *c, void *base, size_t n, bool out);
void smc_cursor_advance(struct cursor *c, size_t n);
/* A msghdr of what is left, at most `max` bytes, using `iov` (of `slots` entries). */
struct msghdr smc_cursor_msg(const struct cursor *c, struct iovec *iov, size_t slots, size_t max);

enum { CURSOR_SLOTS = 16 };

/* Sleeps until the waiter's word changes from `seq`, the deadline passes (-EAGAIN) or a signal (-EINTR). */
int smc_stream_sleep(struct smc_stream *s, struct smc_waiter *w, uint32_t seq, uint64_t deadline);

/* A deadline that never comes, for waits that must not be restarted after a signal (smc_stream_sleep). */
#define SMC_FAR (UINT64_MAX / 2)

/* Deadline for a socket timeout in ns (0 = none): absolute, 0 = never. */
static inline uint64_t deadline_after(uint64_t timeout_ns)
{
	return timeout_ns ? smc_now_ns() + timeout_ns : 0;
}

/* Waits for the kernel socket: 0, -EAGAIN at the deadline, -EINTR. */
int smc_stream_sleep_tcp(int fd, short events, uint64_t deadline);

/* Has FIN or RST come? Our own shutdown does not count. */
bool smc_stream_fin(struct smc_stream *s);

/* Is the peer of a FAST writer gone? It said so itself; or FIN or RST came without its having frozen what it
 * writes, as those who shut down or close do. */
bool smc_stream_peer_gone(struct smc_stream *s);

/* The peer is dead: with the tx lock, for a FAST writer. */
void smc_stream_tx_died(struct smc_stream *s);
/* The peer is dead and the channel drained: what TCP does next is arranged. With the rx lock, not the tx lock. */
void smc_stream_mourn(struct smc_stream *s);

/* Somebody moves bytes where we cannot see it, and will not look into a channel. With the lock of the direction, TCP
 * -> BACK. */
void smc_stream_leave_unseen(struct smc_stream *s, bool tx);

/* With the tx lock: FAST -> RESEND. */
void smc_stream_tx_down(struct smc_stream *s, enum smc_reason reason);

/* With the tx lock: RESEND as far as the socket's queue takes it. True when done (then BACK). */
bool smc_stream_resend(struct smc_stream *s);

/* What the kernel's byte counters say, free of the SYN and FIN they count. -errno if it can't be told. */
int smc_stream_tcp_written(const struct smc_stream *s, uint64_t *offset, bool *held_back);
int smc_stream_tcp_read(int fd, uint64_t *offset);
/* An integer socket option, 0 if there is none. */
int smc_stream_option(int fd, int level, int name);

#endif
