/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/shm/channel.h"
#include "core/fence.h"
#include "core/cpu.h"
#include "core/sys.h"
#include "transport/shm/segment.h"

#include <limits.h>

/*
 * A ring whose cursors are stream offsets. The writer owns `prod`; the reader owns `cons`, except that
 * either end can freeze it: the reader moves it by compare-and-swap and so learns that the bytes it just
 * copied were taken back. That one bit makes a hand-back exact without an answer from the other end.
 */

#define relaxed memory_order_relaxed
#define acquire memory_order_acquire

static struct shm_channel *shm(struct smc_channel *c)
{
	return (struct shm_channel *)c;
}

/* Wakes who sleeps at `w`, because of something already stored that the sleeper looks at. */
static void wake(struct shm_channel *c, struct smc_waiter *w)
{
	/* Pairs with the fence of the sleeper between setting its flag and its last look. */
	smc_full_fence();
	if (!(atomic_load_explicit(&w->flags, relaxed) & (SMC_WAIT_FUTEX | SMC_WAIT_BELL)))
		return;
	uint32_t flags = atomic_fetch_and_explicit(&w->flags, ~(uint32_t)(SMC_WAIT_FUTEX | SMC_WAIT_BELL), memory_order_seq_cst);
	if (flags & SMC_WAIT_FUTEX) {
		atomic_fetch_add_explicit(&w->seq, 1, memory_order_release);
		smc_sys.futex_wake(&w->seq, INT_MAX);
		if (shm_totals)
			atomic_fetch_add_explicit(&shm_totals->doorbells, 1, relaxed);
	}
	if (flags & SMC_WAIT_BELL)
		shm_bell_ring(&c->bell);
}

static size_t two_pieces(uint8_t *ring, uint32_t size, uint64_t offset, size_t n, struct iovec piece[2])
{
	size_t at = (size_t)offset & (size - 1);
	size_t first = n < size - at ? n : size - at;

	piece[0] = (struct iovec){ ring + at, first };
	piece[1] = (struct iovec){ ring, n - first };
	return n;
}

static bool tx_may_open(struct smc_channel *base)
{
	return atomic_load_explicit(&shm(base)->tx->ready, acquire) != 0;
}

static bool tx_open(struct smc_channel *base, uint64_t offset)
{
	struct shm_channel *c = shm(base);
	uint64_t untouched = 0;

	if (!atomic_compare_exchange_strong(&c->tx->cons, &untouched, offset << 1))
		return false;
	atomic_store_explicit(&c->tx_cons_seen, offset, relaxed);
	atomic_store_explicit(&c->tx->prod, offset, relaxed);
	atomic_store_explicit(&c->tx->opened, offset, memory_order_release);
	wake(c, &c->tx->reader);
	return true;
}

static size_t tx_reserve(struct smc_channel *base, struct iovec room[2])
{
	struct shm_channel *c = shm(base);
	/* poll looks without the lock of the writer: so `prod` is read after what it cannot be behind */
	uint64_t seen = atomic_load_explicit(&c->tx_cons_seen, acquire);
	uint64_t prod = atomic_load_explicit(&c->tx->prod, relaxed);
	uint64_t used = prod - seen;

	/* look again only when what is known to be free is not even the low-water mark */
	if (used > base->tx_size - smc_channel_low_water(base)) {
		seen = atomic_load_explicit(&c->tx->cons, acquire) >> 1;
		atomic_store_explicit(&c->tx_cons_seen, seen, memory_order_release);
		prod = atomic_load_explicit(&c->tx->prod, relaxed);
		used = prod - seen;
	}
	if (used > base->tx_size) /* torn: a reader that took more than there was gets nothing more */
		used = base->tx_size;
	return two_pieces(c->tx_ring, base->tx_size, prod, base->tx_size - (size_t)used, room);
}

static unsigned tx_flags(struct smc_channel *base)
{
	return atomic_load_explicit(&shm(base)->tx->reader.flags, acquire) & (SMC_PEER_CLOSED | SMC_PEER_FROZEN);
}

static unsigned tx_commit(struct smc_channel *base, size_t n)
{
	struct shm_channel *c = shm(base);
	uint64_t prod = atomic_load_explicit(&c->tx->prod, relaxed);

	atomic_store_explicit(&c->tx->prod_cpu, smc_cpu(), relaxed);
	atomic_store_explicit(&c->tx->prod, prod + n, memory_order_release);
	wake(c, &c->tx->reader);
	return tx_flags(base);
}

static uint64_t tx_freeze(struct smc_channel *base)
{
	struct shm_channel *c = shm(base);
	uint64_t cons = atomic_fetch_or(&c->tx->cons, SHM_FROZEN) >> 1;
	uint64_t prod = atomic_load_explicit(&c->tx->prod, relaxed);

	wake(c, &c->tx->reader);
	/* A torn cursor may claim anything; what the ring cannot hold was certainly taken. */
	return prod - cons > base->tx_size ? prod : cons;
}

static void tx_finish(struct smc_channel *base)
{
	struct shm_channel *c = shm(base);

	atomic_store_explicit(&c->tx->finished, 1, memory_order_release);
	wake(c, &c->tx->reader);
}

static size_t tx_unread(struct smc_channel *base, uint64_t offset, struct iovec bytes[2])
{
	struct shm_channel *c = shm(base);
	uint64_t n = atomic_load_explicit(&c->tx->prod, relaxed) - offset;

	return two_pieces(c->tx_ring, base->tx_size, offset, n > base->tx_size ? 0 : (size_t)n, bytes);
}

static void rx_ready(struct smc_channel *base)
{
	atomic_store_explicit(&shm(base)->rx->ready, 1, memory_order_release);
}

static bool rx_opened(struct smc_channel *base, uint64_t *offset)
{
	*offset = atomic_load_explicit(&shm(base)->rx->opened, acquire);
	return *offset != SHM_NONE;
}

static enum smc_rx_state rx_peek(struct smc_channel *base, bool all, struct iovec bytes[2], size_t *sum)
{
	struct shm_channel *c = shm(base);
	uint64_t word = atomic_load_explicit(&c->rx->cons, acquire);
	uint64_t cons = word >> 1;

	*sum = 0;
	if (word & SHM_FROZEN) {
		uint64_t left = atomic_load_explicit(&c->rx->prod, acquire) - cons;
		*sum = left <= base->rx_size ? (size_t)left : 0;
		return SMC_RX_FROZEN;
	}
	/* poll looks without the lock of the reader: the shared note may change under us, and be behind */
	uint64_t seen = atomic_load_explicit(&c->rx_prod_seen, acquire);
	bool finished = false;
	if (all || seen - cons - 1 >= base->rx_size) { /* nothing known: look at the writer's line */
		finished = atomic_load_explicit(&c->rx->finished, acquire) != 0; /* before prod, which then is the last */
		seen = atomic_load_explicit(&c->rx->prod, acquire);
		atomic_store_explicit(&c->rx_prod_seen, seen, memory_order_release);
	}
	uint64_t n = seen - cons;
	if (n > base->rx_size) {
		atomic_store_explicit(&c->rx_prod_seen, cons, relaxed);
		return SMC_RX_TORN;
	}
	*sum = two_pieces(c->rx_ring, base->rx_size, cons, (size_t)n, bytes);
	return finished ? SMC_RX_FINISHED : SMC_RX_OPEN;
}

static bool rx_consume(struct smc_channel *base, size_t n)
{
	struct shm_channel *c = shm(base);
	uint64_t word = atomic_load_explicit(&c->rx->cons, relaxed);

	if ((word & SHM_FROZEN) ||
	    !atomic_compare_exchange_strong(&c->rx->cons, &word, word + ((uint64_t)n << 1)))
		return false;
	/* the compare-and-swap is a full fence; the writer is only told once it has real room */
	if (atomic_load_explicit(&c->rx->writer.flags, relaxed) & (SMC_WAIT_FUTEX | SMC_WAIT_BELL)) {
		uint64_t used = atomic_load_explicit(&c->rx->prod, relaxed) - (word >> 1) - n;
		if (used <= base->rx_size - base->rx_size / 4)
			wake(c, &c->rx->writer);
	}
	return true;
}

static void tell_writer(struct shm_channel *c, unsigned flag)
{
	atomic_fetch_or(&c->rx->reader.flags, flag);
	wake(c, &c->rx->writer);
}

static void rx_freeze(struct smc_channel *base)
{
	struct shm_channel *c = shm(base);

	atomic_fetch_or(&c->rx->cons, SHM_FROZEN);
	tell_writer(c, SMC_PEER_FROZEN);
}

static void rx_close(struct smc_channel *base)
{
	tell_writer(shm(base), SMC_PEER_CLOSED);
}

static void channel_release(struct smc_channel *base)
{
	struct shm_channel *c = shm(base);

	shm_segment_release(c->segment, c->side);
	c->segment = NULL;
}

static unsigned peer_cpu(struct smc_channel *base)
{
	return atomic_load_explicit(&shm(base)->rx->prod_cpu, relaxed);
}

static const struct smc_channel_ops shm_ops = {
	.carrier = SMC_CARRIER_SHM,
	.tx_may_open = tx_may_open,
	.tx_open = tx_open,
	.tx_reserve = tx_reserve,
	.tx_commit = tx_commit,
	.tx_flags = tx_flags,
	.tx_freeze = tx_freeze,
	.tx_finish = tx_finish,
	.tx_unread = tx_unread,
	.rx_ready = rx_ready,
	.rx_opened = rx_opened,
	.rx_peek = rx_peek,
	.rx_consume = rx_consume,
	.rx_freeze = rx_freeze,
	.rx_close = rx_close,
	.release = channel_release,
};

void shm_channel_init(struct shm_channel *c, struct shm_segment *segment, unsigned side, const struct shm_peer_bell *bell)
{
	struct shm_dir *dir = segment->header->dir;

	*c = (struct shm_channel){
		.base = {
			.ops = &shm_ops,
			.rx_wait = &dir[!side].reader,
			.tx_wait = &dir[side].writer,
			.tx_size = segment->ring_size[side],
			.rx_size = segment->ring_size[!side],
			.peer_cpu = peer_cpu,
		},
		.tx = &dir[side],
		.rx = &dir[!side],
		.tx_ring = shm_segment_ring(segment, side),
		.rx_ring = shm_segment_ring(segment, !side),
		.bell = *bell,
		.segment = segment,
		.side = side,
	};
}
