/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* One direction, or both, of a connection going up and coming down, step by step. */

static struct pair p;

static ssize_t put(int end, const char *text)
{
	struct iovec iov = { (char *)text, strlen(text) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return smc_stream_send(&p.end[end], &msg, MSG_DONTWAIT);
}

static const char *get(int end, size_t n, int flags)
{
	static char text[4096];
	struct iovec iov = { text, n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r = smc_stream_recv(&p.end[end], &msg, flags | MSG_DONTWAIT);

	if (r < 0)
		return strerrorname_np((int)-r);
	text[r] = 0;
	return text;
}

static void set_up(void)
{
	pair_make(&p, 4096, 8192);
}

static void tear_down(void)
{
	pair_free(&p);
}

TestSuite(stream, .init = set_up, .fini = tear_down);

Test(stream, goes_up_at_the_offset_the_kernel_says)
{
	cr_assert_eq(write(p.end[0].fd, "before ", 7), 7);
	p.shared[0].tcp_written += 7; /* as the call counts that sees it */
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	cr_assert_eq(put(0, "after"), 5);
	cr_assert_eq(p.stats[0].tx_carrier, SMC_CARRIER_SHM);
	cr_assert_eq(p.stats[1].rx_carrier, SMC_CARRIER_TCP);
	cr_assert_str_eq(get(1, 3, 0), "bef");
	cr_assert_str_eq(get(1, 100, MSG_PEEK), "ore after");
	cr_assert_str_eq(get(1, 100, 0), "ore after");
	cr_assert_eq(p.stats[1].rx_carrier, SMC_CARRIER_SHM);
	cr_assert_str_eq(get(1, 100, 0), "EAGAIN");
}

Test(stream, does_not_go_up_before_the_reader_promised)
{
	p.end[1].rx_calls = 1; /* a recv that began before attaching sits in the kernel */
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	cr_assert_eq(put(0, "a"), 1);
	cr_assert_eq(p.stats[0].tx_carrier, SMC_CARRIER_TCP);
	p.end[1].rx_calls = 0;
	smc_stream_promise(&p.end[1], true);
	cr_assert_eq(put(0, "b"), 1);
	cr_assert_eq(p.stats[0].tx_carrier, SMC_CARRIER_SHM);
	cr_assert_str_eq(get(1, 1, 0), "a");
	cr_assert_str_eq(get(1, 9, 0), "b");
}

Test(stream, bytes_written_unseen_keep_their_direction_on_tcp)
{
	cr_assert_eq(write(p.end[0].fd, "unseen ", 7), 7);
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	cr_assert_eq(put(0, "seen"), 4);
	cr_assert_eq(put(1, "answer"), 6);
	cr_assert_eq(p.stats[0].tx_carrier, SMC_CARRIER_TCP);
	cr_assert_eq(p.stats[0].reason, SMC_REASON_UNSEEN);
	cr_assert_eq(p.stats[1].tx_carrier, SMC_CARRIER_SHM);
	cr_assert_str_eq(get(1, 100, 0), "unseen seen");
	cr_assert_str_eq(get(0, 100, 0), "answer");
}

Test(stream, bytes_read_unseen_keep_their_direction_on_tcp)
{
	char raw[8];

	cr_assert_eq(write(p.end[0].fd, "abc", 3), 3);
	p.shared[0].tcp_written += 3;
	cr_assert_eq(read(p.end[1].fd, raw, 2), 2);
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	cr_assert_eq(put(0, "d"), 1);
	cr_assert_eq(p.stats[0].tx_carrier, SMC_CARRIER_TCP);
	cr_assert_eq(p.stats[1].reason, SMC_REASON_UNSEEN);
	cr_assert_eq(read(p.end[1].fd, raw, 8),
		     2); /* and again unseen: nothing is hidden from it */
	cr_assert(!memcmp(raw, "cd", 2));
}

Test(stream, who_was_not_seen_to_read_promises_nothing)
{
	cr_assert(!smc_stream_attach(&p.end[0], &p.channel[0].base));
	cr_assert(!smc_stream_attach(&p.end[1], &p.channel[1].base));
	cr_assert_eq(put(0, "a"), 1);
	cr_assert_eq(p.stats[0].tx_carrier, SMC_CARRIER_TCP);
	cr_assert_str_eq(get(1, 9, 0), "a");
	cr_assert_eq(put(0, "b"), 1);
	cr_assert_eq(p.stats[0].tx_carrier, SMC_CARRIER_SHM);
	cr_assert_str_eq(get(1, 9, 0), "b");
}

Test(stream, does_not_go_up_while_a_send_is_in_the_kernel)
{
	p.end[0].tx_calls = 1;
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	cr_assert_eq(put(0, "a"), 1);
	cr_assert_eq(p.stats[0].tx_carrier, SMC_CARRIER_TCP);
}

Test(stream, writer_comes_down_with_unread_bytes)
{
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	put(0, "in the ring ");
	cr_assert_str_eq(get(1, 3, 0), "in ");
	smc_stream_hand_back(&p.end[0], SMC_REASON_HANDED_BACK);
	put(0, "and then tcp");
	cr_assert_str_eq(get(1, 100, 0), "the ring and then tcp");
	cr_assert_eq(p.stats[0].reason, SMC_REASON_HANDED_BACK);
	cr_assert_eq(p.stats[1].rx_carrier, SMC_CARRIER_TCP);
}

Test(stream, reader_comes_down_with_unread_bytes)
{
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	put(0, "first second ");
	cr_assert_str_eq(get(1, 6, 0), "first ");
	smc_stream_hand_back(&p.end[1], SMC_REASON_HANDED_BACK);
	/* the bytes are with the writer until it looks */
	char raw[64];
	cr_assert_eq(recv(p.end[1].fd, raw, sizeof(raw), MSG_DONTWAIT), -1);
	cr_assert_not(smc_stream_progress(&p.end[0]));
	put(0, "third");
	ssize_t n = recv(p.end[1].fd, raw, sizeof(raw), MSG_DONTWAIT);
	cr_assert_eq(n, 12);
	cr_assert(!memcmp(raw, "second third", 12));
}

Test(stream, both_come_down_at_once)
{
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	put(0, "ping");
	put(1, "pong");
	smc_stream_hand_back(&p.end[0], SMC_REASON_HANDED_BACK);
	smc_stream_hand_back(&p.end[1], SMC_REASON_HANDED_BACK);
	smc_stream_progress(&p.end[0]);
	smc_stream_progress(&p.end[1]);
	cr_assert_str_eq(get(1, 100, 0), "ping");
	cr_assert_str_eq(get(0, 100, 0), "pong");
}

Test(stream, comes_down_before_it_went_up)
{
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	smc_stream_hand_back(&p.end[0], SMC_REASON_HANDED_BACK);
	put(0, "x");
	put(1, "y");
	cr_assert_eq(p.stats[1].tx_carrier, SMC_CARRIER_TCP);
	cr_assert_str_eq(get(1, 9, 0), "x");
	cr_assert_str_eq(get(0, 9, 0), "y");
}

Test(stream, shutdown_sends_what_is_unread_and_then_fin)
{
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	put(0, "last words");
	smc_stream_shutdown(&p.end[0], SHUT_WR);
	shutdown(p.end[0].fd, SHUT_WR);
	cr_assert_str_eq(get(1, 4, 0), "last");
	cr_assert_str_eq(get(1, 100, 0), " words");
	cr_assert_str_eq(get(1, 100, 0), "");
	put(1, "still here");
	cr_assert_str_eq(get(0, 100, 0), "still here");
}

Test(stream, death_of_the_peer_drains_and_ends)
{
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	put(0, "last words");
	put(1, "");
	shutdown(p.end[0].fd, SHUT_RDWR); /* the kernel's FIN, with nobody left to tell through the ring */
	smc_stream_tcp_event(&p.end[1]);
	cr_assert_str_eq(get(1, 100, 0), "last words");
	cr_assert_str_eq(get(1, 100, 0), "");
}

Test(stream, a_full_ring_is_eagain_and_poll_says_so)
{
	char big[3000];
	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = 0;
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	cr_assert_eq(put(0, big), 2999);
	cr_assert_eq(smc_stream_poll(&p.end[0], POLLOUT, false), POLLOUT);
	cr_assert_eq(put(0, big), 4096 - 2999);
	cr_assert_eq(put(0, big), -EAGAIN);
	cr_assert_eq(smc_stream_poll(&p.end[0], POLLIN | POLLOUT, true), 0);
	cr_assert_eq(p.channel[0].base.tx_wait->flags & SMC_WAIT_BELL, SMC_WAIT_BELL);
	get(1, 500, 0);
	cr_assert_eq(p.attention->summary[0], 0, "not told of less than the low-water mark");
	get(1, 600, 0);
	cr_assert_eq(p.attention->bits[0], 1);
	cr_assert_eq(smc_stream_poll(&p.end[0], POLLOUT, false), POLLOUT);
}

Test(stream, a_torn_cursor_ends_the_connection_and_nothing_else)
{
	pair_attach(&p, 0);
	pair_attach(&p, 1);
	put(0, "x");
	p.channel[0].tx->prod += 1u << 20;
	cr_assert_str_eq(get(1, 100, 0), "ECONNRESET");
	cr_assert_eq(p.stats[1].reason, SMC_REASON_PEER_TORN);
}

Test(stream, unread_and_unsent_count_both_carriers)
{
	pair_attach(&p, 0);
	cr_assert_eq(put(0, "tcp"), 3);
	pair_attach(&p, 1);
	cr_assert_eq(put(0, "ring!"), 5);
	cr_assert_eq(smc_stream_unread(&p.end[1]), 8);
	cr_assert_eq(smc_stream_unsent(&p.end[0]), 0, "what fits half of the ring counts as taken, as by a peer's kernel");
	char half[2100];
	memset(half, 'h', sizeof(half));
	half[sizeof(half) - 1] = 0;
	put(0, half);
	cr_assert_eq(smc_stream_unsent(&p.end[0]), 2099 + 5 - 2048);
}

/* What FIONREAD promises, a read must give. */
Test(stream, unread_leaves_out_the_channel_while_tcp_bytes_are_on_their_way)
{
	struct smc_channel *ch = &p.channel[0].base;
	struct iovec room[2];

	pair_attach(&p, 1);
	cr_assert_eq(write(p.end[0].fd, "tcp", 3), 3);
	cr_assert(ch->ops->tx_open(ch, 10)); /* 7 more are in the sender's queue */
	ch->ops->tx_reserve(ch, room);
	memcpy(room[0].iov_base, "ring!", 5);
	ch->ops->tx_commit(ch, 5);
	cr_assert_eq(smc_stream_unread(&p.end[1]), 3);
	cr_assert_str_eq(get(1, 2, 0), "tc");
	cr_assert_eq(smc_stream_unread(&p.end[1]), 1);
	cr_assert_str_eq(get(1, 2, 0), "p");
	cr_assert_eq(smc_stream_unread(&p.end[1]), 0);
	cr_assert_str_eq(get(1, 100, 0), "EAGAIN");
	cr_assert_eq(write(p.end[0].fd, " later ", 7), 7);
	cr_assert_eq(smc_stream_unread(&p.end[1]), 12);
	cr_assert_str_eq(get(1, 100, 0), " later ring!");
}
