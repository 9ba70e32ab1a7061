/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Random steps at both ends of a connection against the simplest model of a stream: what comes out is what
 * went in, at every offset, whatever carrier moved it and however often it changed. Every failure names its
 * seed.
 */

struct direction {
	uint64_t written, read;
};

static uint8_t byte_at(uint64_t offset, int direction)
{
	uint64_t x = (offset + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)direction;

	return (uint8_t)(x >> 56);
}

static unsigned seed_now;

static void send_some(struct pair *p, int end, struct direction *d, unsigned size)
{
	static uint8_t bytes[20000];
	struct iovec iov[3] = { { bytes, size / 3 }, { bytes + size / 3, 0 }, { bytes + size / 3, size - size / 3 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };

	for (unsigned i = 0; i < size; i++)
		bytes[i] = byte_at(d->written + i, end);
	bool plain = smc_stream_tx_plain(&p->end[end]);
	ssize_t n = plain ? sendmsg(p->end[end].fd, &msg, MSG_DONTWAIT)
			  : smc_stream_send(&p->end[end], &msg, MSG_DONTWAIT);
	if (n > 0)
		d->written += (uint64_t)n;
	if (n > 0 && plain)
		p->shared[end].tcp_written += (uint64_t)n;
}

static bool recv_some(struct pair *p, int end, struct direction *d, unsigned size, int flags)
{
	static uint8_t bytes[20000];
	struct iovec iov[2] = { { bytes, size / 2 }, { bytes + size / 2, size - size / 2 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	bool plain = smc_stream_rx_plain(&p->end[end]);
	ssize_t n = plain ? recvmsg(p->end[end].fd, &msg, flags | MSG_DONTWAIT)
			  : smc_stream_recv(&p->end[end], &msg, flags | MSG_DONTWAIT);

	for (ssize_t i = 0; i < n; i++)
		if (bytes[i] != byte_at(d->read + (uint64_t)i, !end))
			cr_assert_fail("seed %u: wrong byte at offset %llu", seed_now,
				       (unsigned long long)(d->read + (uint64_t)i));
	if (n > 0 && !(flags & MSG_PEEK)) {
		d->read += (uint64_t)n;
		if (plain)
			p->shared[end].tcp_read += (uint64_t)n;
	}
	cr_assert_leq(d->read, d->written, "seed %u", seed_now);
	return n > 0;
}

static void one_run(unsigned seed)
{
	struct pair p;
	struct direction d[2] = { { 0 } }; /* d[i] is written by end i */
	unsigned step, downs = 0;
	bool attached[2] = { false };

	srand(seed_now = seed);
	pair_make(&p, 4096u << rand() % 3, 4096u << rand() % 3);
	unsigned up_after = (unsigned)rand() % 60, down_after = 60 + (unsigned)rand() % 300;
	for (step = 0; step < 400; step++) {
		int end = rand() % 2;
		unsigned size = 1u + (unsigned)rand() % (rand() % 4 ? 300 : 15000);
		if (step >= up_after && !attached[end]) {
			pair_attach(&p, end);
			attached[end] = true;
		}
		if (step >= down_after && rand() % 20 == 0 && attached[end] && downs < 2) {
			smc_stream_hand_back(&p.end[end], SMC_REASON_HANDED_BACK);
			downs++;
		}
		switch (rand() % 8) {
		case 0:
		case 1:
		case 2:
			send_some(&p, end, &d[end], size);
			break;
		case 3:
			recv_some(&p, end, &d[!end], size, MSG_PEEK);
			break;
		case 4:
			smc_stream_progress(&p.end[end]);
			break;
		default:
			recv_some(&p, end, &d[!end], size, 0);
		}
	}
	for (int tries = 0; tries < 1000 && (d[0].read < d[0].written || d[1].read < d[1].written); tries++)
		for (int end = 0; end < 2; end++) {
			smc_stream_progress(&p.end[end]);
			recv_some(&p, end, &d[!end], 20000, 0);
		}
	cr_assert_eq(d[0].read, d[0].written, "seed %u: bytes lost", seed);
	cr_assert_eq(d[1].read, d[1].written, "seed %u: bytes lost", seed);
	pair_free(&p);
}

Test(stream_model, any_order_of_steps_keeps_the_stream, .timeout = 120)
{
	const char *replay = getenv("SMC_TEST_SEED");

	if (replay) {
		one_run((unsigned)atoi(replay));
		return;
	}
	for (unsigned seed = 1; seed <= 1500; seed++)
		one_run(seed);
}
