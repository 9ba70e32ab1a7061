/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/sys.h"
#include "tests/unit/pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

/* The end of a direction whose ring is full of bytes that nobody has read. */

enum { RING = 512 * 1024 };

static struct pair p;
static uint8_t sent[RING], got[RING + 1];
static unsigned naps;
static int (*real_poll)(struct pollfd *fds, nfds_t n, int timeout_ms);
static int (*real_setsockopt)(int fd, int level, int name, const void *value, socklen_t len);

static int counting_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	naps += timeout_ms != 0;
	return real_poll(fds, n, timeout_ms);
}

static int no_larger_buffers(int fd, int level, int name, const void *value, socklen_t len)
{
	return level == SOL_SOCKET && name == SO_SNDBUF ? 0 : real_setsockopt(fd, level, name, value, len);
}

/* As where net.core.wmem_max is small. */
static void keep_send_queue_small(void)
{
	int size = 16 * 1024;

	cr_assert(!setsockopt(p.end[0].fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	smc_sys.setsockopt = no_larger_buffers;
}

static ssize_t move(int end, void *data, size_t n, bool out, int flags)
{
	struct iovec iov = { data, n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	flags |= MSG_DONTWAIT;
	return out ? smc_stream_send(&p.end[end], &msg, flags) : smc_stream_recv(&p.end[end], &msg, flags);
}

static void set_up(void)
{
	pair_make(&p, RING, 4096);
	real_poll = smc_sys.poll;
	real_setsockopt = smc_sys.setsockopt;
	smc_sys.poll = counting_poll;
	for (size_t i = 0; i < RING; i++)
		sent[i] = (uint8_t)(i * 31 + (i >> 11));
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	cr_assert_eq(move(0, sent, RING, true, 0), RING);
	cr_assert_eq(p.stats[0].tx_carrier, SMC_CARRIER_SHM);
}

static void tear_down(void)
{
	pair_free(&p);
}

TestSuite(stream_end, .init = set_up, .fini = tear_down);

static void shut_down(void)
{
	smc_stream_shutdown(&p.end[0], SHUT_WR);
	cr_assert(!shutdown(p.end[0].fd, SHUT_WR));
	smc_stream_tcp_event(&p.end[1]);
}

static void check_rest(size_t from)
{
	size_t sum = from;
	ssize_t n;

	while ((n = move(1, got + sum, sizeof(got) - sum, false, 0)) > 0)
		sum += (size_t)n;
	cr_assert_eq(n, 0, "ends with %zd", n);
	cr_assert_eq(sum, RING);
	cr_assert(!memcmp(got, sent, RING));
}

Test(stream_end, what_the_peer_left_is_read_without_naps)
{
	shut_down();
	cr_assert(move(1, got, RING, false, MSG_PEEK) > 0);
	naps = 0;
	check_rest(0);
	cr_assert_leq(naps, 3, "%u naps", naps); /* TCP has no room for all of them: waiting for them is waiting for nobody */
}

Test(stream_end, what_was_peeked_at_does_not_vanish)
{
	cr_assert_eq(move(1, got, 20000, false, MSG_PEEK), 20000);
	cr_assert_eq(move(1, got, 5000, false, 0), 5000);
	shut_down();
	cr_assert_geq(move(1, got + 5000, 20000, false, MSG_PEEK), 15000);
	check_rest(5000);
}

Test(stream_end, without_room_in_the_send_queue_bytes_stay_in_the_channel)
{
	keep_send_queue_small();
	shut_down();
	cr_assert_eq(naps, 0, "waited for the peer");
	cr_assert_eq(p.channel[0].tx->finished, 1);
	cr_assert_eq(move(0, sent, 1, true, MSG_NOSIGNAL), -EPIPE);
	cr_assert_eq(smc_stream_unread(&p.end[1]), RING);
	cr_assert_eq(smc_stream_poll(&p.end[1], POLLIN, false), POLLIN);
	check_rest(0);
	cr_assert_eq(p.stats[1].rx[SMC_CARRIER_SHM], RING);
	cr_assert_eq(p.end[1].end->rx_mode, SMC_RX_BACK);
}

Test(stream_end, a_reader_that_leaves_does_not_lose_the_last_bytes)
{
	keep_send_queue_small();
	shut_down();
	smc_stream_hand_back(&p.end[1], SMC_REASON_PEER_LEFT);
	check_rest(0);
}

Test(stream_end, peeking_for_more_than_there_will_be_ends)
{
	struct iovec iov = { got, sizeof(got) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	keep_send_queue_small();
	shut_down();
	cr_assert_eq(smc_stream_recv(&p.end[1], &msg, MSG_PEEK | MSG_WAITALL), RING);
	check_rest(0);
}

Test(stream_end, closing_both_with_bytes_unread_is_a_reset)
{
	char c;

	keep_send_queue_small();
	shut_down();
	smc_stream_close(&p.end[1]);
	close(p.end[1].fd);
	cr_assert_eq(recv(p.end[0].fd, &c, 1, 0), -1);
	cr_assert_eq(errno, ECONNRESET);
}
