/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_TRANSPORT_TRANSPORT_H
#define SMC_TRANSPORT_TRANSPORT_H

#include "core/stats.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * A channel is one end of the fast carrier of one connection: a place to put bytes for the peer (tx) and a
 * place to take the peer's bytes from (rx). It knows nothing of file descriptors or of TCP; core/stream.c
 * decides which bytes go through it.
 *
 * Positions are absolute offsets in the byte stream of a direction (0 = first byte of the connection), so
 * that "which carrier moves which bytes" is always a comparison of two numbers.
 *
 * A direction of a channel lives once:
 *
 *     closed --open(X)--> open --freeze--> frozen
 *        \------------freeze--------------/   /
 *                           \-finish-> finished
 *
 * Either end may freeze, at any time and without an answer: the reader takes nothing more from here, and the
 * writer writes to TCP what was not taken, before anything newer. A writer that will write nothing newer, and whose
 * kernel has no room for what was not taken, finishes instead.
 *
 * The caller serialises tx calls among themselves, and rx calls among themselves (one lock each); tx and rx
 * may run at the same time, in different threads and, after fork, processes.
 */

/* Where somebody sleeps for this direction to make progress, and what the other side must know. */
struct smc_waiter {
	_Atomic uint32_t flags; /* SMC_WAIT_* */
	_Atomic uint32_t seq;	/* futex word: changes at each wake */
};

enum {
	SMC_WAIT_FUTEX = 1, /* threads sleep on seq */
	SMC_WAIT_BELL = 2,  /* an epoll set or a poll call wants to hear of it: ring the doorbell */
	SMC_PEER_CLOSED = 4, /* (reader's waiter) the reader has closed: nothing will be taken any more */
	SMC_PEER_FROZEN = 8, /* (reader's waiter) the reader takes nothing more from the channel */
};

/* What rx_peek found out besides the bytes. */
enum smc_rx_state {
	SMC_RX_OPEN,
	SMC_RX_FINISHED, /* after these bytes TCP goes on */
	SMC_RX_FROZEN, /* sum: bytes that were there to take and will come over TCP instead */
	SMC_RX_TORN, /* the peer wrote nonsense */
};

struct smc_channel;

struct smc_channel_ops {
	enum smc_carrier carrier;

	/* Has the reader promised to look here for bytes? */
	bool (*tx_may_open)(struct smc_channel *c);
	/* From `offset` on, bytes go through the channel. False: frozen already, it can't be opened. */
	bool (*tx_open)(struct smc_channel *c, uint64_t offset);
	/* Free space, in up to two pieces; returns the sum. */
	size_t (*tx_reserve)(struct smc_channel *c, struct iovec room[2]);
	/* The first `n` bytes of the space last reserved are written: show them to the reader and wake it.
	 * Returns tx_flags(). */
	unsigned (*tx_commit)(struct smc_channel *c, size_t n);
	/* SMC_PEER_CLOSED, SMC_PEER_FROZEN as far as known. */
	unsigned (*tx_flags)(struct smc_channel *c);
	/* Takes back what the reader has not taken: returns the offset of the first such byte. */
	uint64_t (*tx_freeze)(struct smc_channel *c);
	/* Nothing more is committed. What the reader has not taken stays for it to take. */
	void (*tx_finish)(struct smc_channel *c);
	/* The bytes from `offset` up to the last committed, in up to two pieces; returns the sum. */
	size_t (*tx_unread)(struct smc_channel *c, uint64_t offset, struct iovec bytes[2]);

	/* Promise of tx_may_open. */
	void (*rx_ready)(struct smc_channel *c);
	/* Did the writer open? Then *offset is the first byte that comes through here. */
	bool (*rx_opened)(struct smc_channel *c, uint64_t *offset);
	/* Bytes that can be taken, in up to two pieces; *sum is their count. With `all` every one that is there;
	 * without, perhaps only those seen before, if there are any (which is cheaper). */
	enum smc_rx_state (*rx_peek)(struct smc_channel *c, bool all, struct iovec bytes[2], size_t *sum);
	/* `n` of them were copied. False: the writer froze first, they were not taken. */
	bool (*rx_consume)(struct smc_channel *c, size_t n);
	/* Takes nothing more. */
	void (*rx_freeze)(struct smc_channel *c);
	/* The reader is gone. */
	void (*rx_close)(struct smc_channel *c);

	/* The connection is over at this end, in every process: gives the memory back. */
	void (*release)(struct smc_channel *c);
};

struct smc_channel {
	const struct smc_channel_ops *ops;
	struct smc_waiter *rx_wait; /* we sleep here for bytes */
	struct smc_waiter *tx_wait; /* we sleep here for space */
	uint32_t tx_size, rx_size;  /* capacity in bytes */
	/* CPU the peer was last seen on, or ~0u */
	unsigned (*peer_cpu)(struct smc_channel *c);
};

/* A writer is told of free space, and poll calls the channel writable, once a quarter is free. */
static inline size_t smc_channel_low_water(const struct smc_channel *c)
{
	return c->tx_size / 4;
}

#endif
