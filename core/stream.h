/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_STREAM_H
#define SMC_CORE_STREAM_H

#include "core/lock.h"
#include "core/reason.h"
#include "core/stats.h"
#include "core/wait.h"
#include "transport/transport.h"

#include <sys/socket.h>
#include <sys/types.h>

/*
 * One connection as a byte stream in each direction, whose bytes move by TCP or through a channel.
 *
 * The life of a direction, for the writer (tx) and for the reader (rx):
 *
 *   TCP    bytes go over TCP; a channel may stand beside it, not open yet
 *   DRAIN  (rx only) the writer opened the channel at X; TCP still holds bytes before X
 *   FAST   bytes go through the channel
 *   RESEND (tx only) the channel was frozen; what was not taken is being written to TCP, before anything new
 *   BACK   bytes go over TCP again, for good: the kernel serves every call as it always did
 *
 * When the writer goes up, X is the offset the kernel says has been written to TCP. When the reader promises to look
 * at the channel, the kernel says how much has been read. Either must be what the calls we see moved: who moves bytes
 * where we do not see it (io_uring, raw system calls) would not look into a channel either, so that direction stays
 * on TCP. FIN and RST stay the kernel's: shutdown and close first bring the direction down, so bytes not taken and then
 * FIN come over TCP. Where the socket's send queue has no room for those bytes they stay in the channel, finished, and
 * FIN alone comes over TCP. When the peer died, the reader drains the channel and is BACK too. End-of-file and errors
 * are always TCP's own.
 */

enum smc_tx_mode { SMC_TX_TCP, SMC_TX_FAST, SMC_TX_RESEND, SMC_TX_BACK };
enum smc_rx_mode { SMC_RX_TCP, SMC_RX_DRAIN, SMC_RX_FAST, SMC_RX_BACK };

enum { SMC_EVENT_RX = 1, SMC_EVENT_TX = 2 };

/* State of the open socket rather than of one process: in memory shared with forked children (core/arena.h). */
struct smc_end {
	_Atomic uint32_t holders;   /* processes that have a descriptor for it */
	_Atomic uint32_t foreign;   /* a process without the library may hold it: never goes up (a reason) */
	_Atomic uint32_t attached;  /* the channel is set up in the process that attached */
	_Atomic uint32_t tcp_event; /* SMC_EVENT_*: the kernel socket had bytes, FIN or RST, not looked at yet by ... */
	/* what fcntl and setsockopt said, valid once attached */
	_Atomic uint32_t nonblock;
	_Atomic uint32_t corked;     /* TCP_CORK is set, or the last send over TCP had MSG_MORE */
	_Atomic uint64_t rcvtimeo_ns, sndtimeo_ns; /* 0 = none */
	_Atomic uint32_t rcvlowat;
	_Atomic uint32_t peer_died; /* FIN or RST came, and the peer had not frozen what it writes */
	_Atomic uint32_t reset_due; /* it died with bytes of ours unread: TCP would have said ECONNRESET, once */
	_Atomic uint32_t rx_shut; /* shutdown(SHUT_RD): end-of-file once what is there was read */

	_Alignas(64) struct smc_guarded_lock tx_lock;
	_Atomic uint32_t tx_mode;
	_Atomic uint64_t tcp_written;  /* before FAST: bytes that writes we saw have given to TCP */
	uint64_t resend_at;	       /* RESEND: next byte to write to TCP */
	struct smc_spin_place tx_spin; /* waiting for space */

	_Alignas(64) struct smc_guarded_lock rx_lock;
	_Atomic uint32_t rx_mode;
	_Atomic uint32_t rx_promised; /* the channel's rx_ready was called */
	_Atomic uint64_t tcp_read;    /* before DRAIN: bytes of TCP that reads we saw have taken */
	uint64_t tcp_left;	      /* DRAIN: bytes before X still in TCP */
	_Atomic uint64_t rx_told;     /* FAST: bytes not taken that peeks, FIONREAD and SO_RCVLOWAT told of */
	struct smc_spin_place rx_spin;
	_Atomic uint64_t rx_sent_seen; /* bytes this end had sent when it last waited for some ... */
	_Atomic uint32_t rx_streak;    /* ... so many waits in a row without sending any */
};

/* A process' view. Plain data; the owner is the connection object of the layer above. */
struct smc_stream {
	/* A descriptor of the socket. It changes when this one is closed while others (dup) are open, or while a
	 * call still sleeps on the connection: so it is read again for every call to the kernel. */
	_Atomic int fd;
	struct smc_end *end;
	struct smc_channel *channel; /* &its embedded channel once attached, else NULL */
	struct smc_stats_slot *stats; /* never NULL */
	bool connector;		     /* did the active open: its SYN counts in the kernel's byte counters */
	/* Calls of this process that are inside the kernel without the stream knowing what they move:
	 * begun before attaching. The direction cannot change carrier while there are any. */
	_Atomic uint32_t rx_calls, tx_calls;
	_Atomic uint32_t sleepers; /* calls that sleep on the connection in this process */
	/* Tells the other end, which may be idle, that we froze its writes. */
	void (*tell_frozen)(struct smc_stream *s);
};

/* May the application's call go straight to the kernel? True before attaching and once a direction is BACK. */
static inline bool smc_stream_tx_plain(const struct smc_stream *s)
{
	return !__atomic_load_n(&s->channel, __ATOMIC_ACQUIRE) ||
	       atomic_load_explicit(&s->end->tx_mode, memory_order_relaxed) == SMC_TX_BACK;
}

static inline bool smc_stream_rx_plain(const struct smc_stream *s)
{
	return !__atomic_load_n(&s->channel, __ATOMIC_ACQUIRE) ||
	       atomic_load_explicit(&s->end->rx_mode, memory_order_relaxed) == SMC_RX_BACK;
}

/* The channel is there: from now on calls go through the stream. The connection must be established.
 * Reads the socket's settings into s->end. 0 or -errno. */
int smc_stream_attach(struct smc_stream *s, struct smc_channel *channel);

/* Promises the peer to look at the channel, once no call is inside the kernel. Called after attaching and
 * whenever such a call ends. `reads`: by a call that reads; without one, now or before, there is no promise: the
 * application may read in a way we do not see (io_uring). If bytes were read so, the direction stays on TCP. */
void smc_stream_promise(struct smc_stream *s, bool reads);

/* As sendmsg and recvmsg on the socket, all flags, blocking or not: >= 0, or -errno (never errno itself).
 * SIGPIPE is raised as the kernel would. In a signal handler that interrupted this thread while it copied bytes of the
 * same direction: -EAGAIN. What a handler cannot do for that reason in the other functions here is left undone:
 * the peer then learns of the end of the connection as from a process that died. */
ssize_t smc_stream_send(struct smc_stream *s, const struct msghdr *msg, int flags);
ssize_t smc_stream_recv(struct smc_stream *s, struct msghdr *msg, int flags);

/* A pointer that the kernel would refuse with EFAULT, as far as can be told without asking it. */
bool smc_bad_pointer(const void *p);

/* What poll would say: a POLL* mask of `events` and those always reported. Asks the kernel only when the
 * channel does not settle it. With `arm`, whoever makes an unmet event true will ring the bell. */
short smc_stream_poll(struct smc_stream *s, short events, bool arm);

/* Bytes that can be read without waiting (FIONREAD), and written but not taken by the peer (SIOCOUTQ). */
long smc_stream_unread(struct smc_stream *s);
long smc_stream_unsent(struct smc_stream *s);

/* The kernel socket had an event: wakes who sleeps on the channel. */
void smc_stream_tcp_event(struct smc_stream *s);

/* Work nobody waits for: writes to TCP what a peer that froze did not take. True while there is more that
 * must wait for the socket to be writable. */
bool smc_stream_progress(struct smc_stream *s);

/* Both directions go back to TCP now, for `reason`. When it returns, everything this end wrote and the peer
 * has not taken is in the kernel's hands, and what the peer wrote comes, or came, over TCP. May wait for
 * room in the socket's send queue. */
void smc_stream_hand_back(struct smc_stream *s, enum smc_reason reason);

/* The process at the other end is gone, with no child that shares its links. Its FIN may have come long before (a
 * half close) or may be stuck behind bytes nobody reads: what we write goes back to TCP, which finds out whether
 * anybody is left. What it wrote is still there to read.
 * Waits for a FIN until the deadline (CLOCK_MONOTONIC, ns), to tell death from a child that goes on. */
void smc_stream_peer_process_gone(struct smc_stream *s, uint64_t deadline);

/* Before the kernel's shutdown(fd, how) and before the last close of the socket in any process. */
void smc_stream_shutdown(struct smc_stream *s, int how);
void smc_stream_close(struct smc_stream *s);

#endif
