/* SPDX-License-Identifier: BSD-2-Clause */

/* Much data: large calls, both directions at once, full buffers, slow readers. */

#include <sys/uio.h>

#include "harness.h"

enum { MIB = 1 << 20 };

PAIR(bulk_one_call, 0);

SERVER(bulk_one_call)
{
	char *b = malloc(MIB);
	MUST(b);
	R(recv(fd, b, MIB, MSG_WAITALL));
	say("intact %d", pattern_check(b, 1, 0, MIB));
	R(write(fd, b, MIB));
	free(b);
}

CLIENT(bulk_one_call)
{
	char *b = malloc(MIB);
	MUST(b);
	pattern_fill(b, 1, 0, MIB);
	/* A blocking write takes it all, whatever the buffers hold. */
	R(write(fd, b, MIB));
	memset(b, 0, MIB);
	R(recv(fd, b, MIB, MSG_WAITALL));
	say("intact %d", pattern_check(b, 1, 0, MIB));
	free(b);
}

PAIR(bulk_writev, 0);

SERVER(bulk_writev)
{
	say("intact %d", pattern_recv(fd, 1, 0, 4 * MIB, 300000));
	say("checked");
}

CLIENT(bulk_writev)
{
	char *b = malloc(4 * MIB);
	MUST(b);
	pattern_fill(b, 1, 0, 4 * MIB);
	struct iovec v[4] = {
		{ b, 1 }, { b + 1, MIB }, { b + 1 + MIB, 0 }, { b + 1 + MIB, 3 * MIB - 1 }
	};
	R(writev(fd, v, 4));
	free(b);
}

/* Sends `size` of stream `out` and receives as much of stream `in`, at the same time, by poll. */
static bool exchange(int fd, uint32_t out, uint32_t in, size_t size, size_t chunk)
{
	size_t sent = 0, got = 0;
	char *b = malloc(chunk);
	bool ok = true;
	MUST(b);
	while (ok && (sent < size || got < size)) {
		struct pollfd p = { .fd = fd };
		p.events = (short)((sent < size ? POLLOUT : 0) | (got < size ? POLLIN : 0));
		int n = poll(&p, 1, 10000);
		MUST(n == 1);
		if (p.revents & POLLIN) {
			ssize_t r = recv(fd, b, chunk, MSG_DONTWAIT);
			ok = r > 0 && pattern_check(b, in, got, (size_t)r);
			got += r > 0 ? (size_t)r : 0;
		}
		if (ok && p.revents & POLLOUT) {
			size_t want = size - sent < chunk ? size - sent : chunk;
			pattern_fill(b, out, sent, want);
			ssize_t r = send(fd, b, want, MSG_DONTWAIT);
			ok = r > 0 || errno == EAGAIN;
			sent += r > 0 ? (size_t)r : 0;
		}
	}
	free(b);
	return ok;
}

PAIR(bulk_both_ways, 0);

SERVER(bulk_both_ways)
{
	say("intact %d", exchange(fd, 1, 2, (size_t)64 * MIB, 256 * 1024));
}

CLIENT(bulk_both_ways)
{
	say("intact %d", exchange(fd, 2, 1, (size_t)64 * MIB, 100000));
}

PAIR(bulk_both_ways_small_buffers, SMALL_BUF);

SERVER(bulk_both_ways_small_buffers)
{
	say("intact %d", exchange(fd, 1, 2, (size_t)4 * MIB, 7777));
}

CLIENT(bulk_both_ways_small_buffers)
{
	say("intact %d", exchange(fd, 2, 1, (size_t)4 * MIB, 100000));
}

PAIR(bulk_both_ways_cold, COLD);

SERVER(bulk_both_ways_cold)
{
	say("intact %d", exchange(fd, 1, 2, (size_t)16 * MIB, 5000));
}

CLIENT(bulk_both_ways_cold)
{
	say("intact %d", exchange(fd, 2, 1, (size_t)16 * MIB, 3000));
}

/* Both ends fill the connection, neither reads; then both drain it, and only then go on. */
PAIR(bulk_both_full, NONBLOCK);

static size_t fill_up(int fd, uint32_t seed, size_t limit)
{
	enum { CHUNK = 65536 };
	char *b = malloc(CHUNK);
	size_t sent = 0;
	MUST(b);
	for (;;) {
		pattern_fill(b, seed, sent, CHUNK);
		ssize_t n = send(fd, b, CHUNK, MSG_DONTWAIT);
		if (n > 0)
			sent += (size_t)n;
		else if (errno != EAGAIN || !wait_events(fd, POLLOUT, 50))
			break;
		if (sent > limit)
			break;
	}
	free(b);
	return sent;
}

static void full_and_drain(int fd, int me)
{
	int other = !me;
	size_t sent = fill_up(fd, (uint32_t)me, (size_t)200 * MIB);
	YES(sent > 0);
	YES(sent < (size_t)100 * MIB);
	say_events("writable", wait_events(fd, POLLOUT, 0));
	shared_set(me, (long)sent);
	post(me);
	await(other);
	say_events("readable", wait_events(fd, POLLIN, 5000));
	say("drained intact %d",
	    pattern_recv(fd, (uint32_t)other, 0, (size_t)shared_get(other), 100000));
	post(2 + me);
	await(2 + other);
	say_events("writable again", wait_events(fd, POLLOUT, 5000));
	/* Both send before they receive; TCP has room for that much. */
	pattern_send(fd, (uint32_t)me + 10, 0, 100000, 50000);
	say("more intact %d", pattern_recv(fd, (uint32_t)other + 10, 0, 100000, 50000));
}

SERVER(bulk_both_full)
{
	full_and_drain(fd, 0);
}

CLIENT(bulk_both_full)
{
	full_and_drain(fd, 1);
}

/* A slow reader: the sender is stopped within bounds of the order of the socket's buffers. */
PAIR(bulk_slow_reader_bounded, SMALL_BUF);

SERVER(bulk_slow_reader_bounded)
{
	await(0);
	say("intact %d", pattern_recv(fd, 1, 0, (size_t)shared_get(0), 1000));
}

CLIENT(bulk_slow_reader_bounded)
{
	set_nonblock(fd, true);
	size_t sent = fill_up(fd, 1, (size_t)64 * MIB);
	YES(sent >= 1024);
	YES(sent < 2 * MIB);
	shared_set(0, (long)sent);
	post(0);
}

/* A blocking sender sleeps on a full connection and goes on when the reader does. */
PAIR(bulk_blocked_sender, 0);

SERVER(bulk_blocked_sender)
{
	await(0);
	nap(100);
	YES(!shared_get(1));
	say("intact %d", pattern_recv(fd, 1, 0, (size_t)64 * MIB, 65536));
}

CLIENT(bulk_blocked_sender)
{
	post(0);
	pattern_send(fd, 1, 0, (size_t)64 * MIB, 4 * MIB);
	shared_set(1, 1);
}

/* A full connection drained byte by byte at first: no stall when only little room was made. */
PAIR(bulk_little_room, SMALL_BUF);

SERVER(bulk_little_room)
{
	char b[16];
	await(0);
	size_t size = MIB, at = 0;
	bool ok = true;
	while (at < size && ok) {
		ssize_t n = recv(fd, b, at < 20000 ? 1 : 16, 0);
		ok = n > 0 && pattern_check(b, 1, at, (size_t)n);
		at += n > 0 ? (size_t)n : 0;
	}
	say("intact %d", ok);
}

CLIENT(bulk_little_room)
{
	char *b = malloc(MIB);
	MUST(b);
	pattern_fill(b, 1, 0, MIB);
	post(0);
	R(send(fd, b, MIB, 0));
	free(b);
}

/* Request and answer of many sizes around the powers of two, where rings wrap. */
PAIR(bulk_wrap_sizes, 0);

static const int wrap_sizes[] = { 4095,	  4096,	  4097,	  8191,	  16383,  16384,
				  16385,  32767,  65535,  65536,  65537,  131071,
				  131073, 262143, 262144, 262145, 524287, 524289 };

SERVER(bulk_wrap_sizes)
{
	size_t at = 0;
	for (int round = 0; round < 5; round++)
		for (size_t i = 0; i < sizeof(wrap_sizes) / sizeof(wrap_sizes[0]); i++) {
			size_t n = (size_t)wrap_sizes[i];
			if (!pattern_recv(fd, 1, at, n, n))
				say("broken at size %zu round %d", n, round);
			pattern_send(fd, 2, at, n, n);
			at += n;
		}
	say("%zu bytes", at);
}

CLIENT(bulk_wrap_sizes)
{
	size_t at = 0;
	for (int round = 0; round < 5; round++)
		for (size_t i = 0; i < sizeof(wrap_sizes) / sizeof(wrap_sizes[0]); i++) {
			size_t n = (size_t)wrap_sizes[i];
			pattern_send(fd, 1, at, n, n / (size_t)(round + 1));
			if (!pattern_recv(fd, 2, at, n, n))
				say("broken at size %zu round %d", n, round);
			at += n;
		}
	say("%zu bytes", at);
}

/* Many small messages one way, read in large calls; then the other way about. */
PAIR(bulk_small_and_large, 0);

SERVER(bulk_small_and_large)
{
	say("intact %d", pattern_recv(fd, 1, 0, 3 * MIB, 65536));
	pattern_send(fd, 2, 0, 3 * MIB, 65536);
}

CLIENT(bulk_small_and_large)
{
	pattern_send(fd, 1, 0, 3 * MIB, 64);
	say("intact %d", pattern_recv(fd, 2, 0, 3 * MIB, 61));
}
