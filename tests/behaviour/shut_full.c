/* SPDX-License-Identifier: BSD-2-Clause */

/* Ends of connections whose buffers are full: shutdown and close wait for nobody, and no byte is lost. */

#include "harness.h"

enum { WRITTEN = 40, FULL = 0, GO_ON = 1, SOON_MS = 2000 };

/* Writes until nothing more is taken; returns how much was. */
static size_t fill(int fd, uint32_t seed)
{
	static char piece[10000];
	size_t sum = 0;
	ssize_t n;

	for (;;) {
		pattern_fill(piece, seed, sum, sizeof(piece));
		n = send(fd, piece, sizeof(piece), MSG_DONTWAIT);
		if (n < 0)
			break;
		sum += (size_t)n;
	}
	YES(errno == EAGAIN);
	YES(sum > 100000);
	return sum;
}

static void say_soon(const char *what, long start)
{
	say("%s at once: %s", what, now_ms() - start < SOON_MS ? "yes" : "no");
}

/* Reads to the end, and compares with what was written. */
static void say_all_read(int fd, uint32_t seed)
{
	bool intact;
	int err;
	size_t n = recv_to_end(fd, seed, 0, &intact, &err);

	say("all: %s, intact: %d, error: %d", (long)n == shared_get(WRITTEN) ? "yes" : "no", intact, err);
}

PAIR(shut_full_close, 0);

SERVER(shut_full_close)
{
	await(FULL);
	say_all_read(fd, 1);
	say_poll_with(fd, POLLRDHUP);
	R(send(fd, "x", 1, MSG_NOSIGNAL));
}

CLIENT(shut_full_close)
{
	shared_set(WRITTEN, (long)fill(fd, 1));
	long start = now_ms();
	R(close(fd));
	say_soon("closed", start);
	post(FULL);
}

/* The other direction goes on. */
PAIR(shut_full_half_close, 0);

SERVER(shut_full_half_close)
{
	await(FULL);
	say_all_read(fd, 1);
	pattern_send(fd, 2, 0, 1 << 20, 100000);
	R(shutdown(fd, SHUT_WR));
}

CLIENT(shut_full_half_close)
{
	bool intact;
	int err;

	shared_set(WRITTEN, (long)fill(fd, 1));
	long start = now_ms();
	R(shutdown(fd, SHUT_WR));
	say_soon("shut down", start);
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	post(FULL);
	R(recv_to_end(fd, 2, 0, &intact, &err));
	say("intact: %d, error: %d", intact, err);
}

/* An event loop that holds both ends would wait for itself. */
SOLO(shut_full_both_ends_in_one_thread, 0)
{
	int sv[2], size = 4 << 20;
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);

	MUST(!setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	sv[0] = tcp_socket(AF_INET, 0);
	MUST(!setsockopt(sv[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	MUST(!try_connect(sv[0], AF_INET, port));
	sv[1] = accept(listener, NULL, NULL);
	MUST(sv[1] >= 0);
	warm_up_both(sv[0], sv[1]);

	shared_set(WRITTEN, (long)fill(sv[0], 1));
	long start = now_ms();
	R(close(sv[0]));
	say_soon("closed", start);
	say_all_read(sv[1], 1);
	R(close(sv[1]));
	close(listener);
}

/* The writer is gone altogether before the first byte is read. */
PAIR(shut_full_exit, 0);

SERVER(shut_full_exit)
{
	await(FULL);
	nap(50);
	say_all_read(fd, 1);
}

CLIENT(shut_full_exit)
{
	shared_set(WRITTEN, (long)fill(fd, 1));
	R(shutdown(fd, SHUT_RDWR));
	post(FULL);
	_exit(0);
}

/* A reader asleep in poll hears of the end after the bytes, and FIONREAD counts them. */
PAIR(shut_full_polled, 0);

SERVER(shut_full_polled)
{
	static char piece[50000];
	long sum = 0;
	ssize_t n = 0;

	await(FULL);
	say_events("poll", wait_events(fd, POLLIN, 5000));
	do {
		MUST(wait_events(fd, POLLIN | POLLRDHUP, 5000));
		n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
		if (n > 0)
			sum += n;
	} while (n > 0);
	say("all: %s", sum == shared_get(WRITTEN) ? "yes" : "no");
	R(n);
	say_poll_with(fd, POLLRDHUP);
	post(GO_ON);
}

CLIENT(shut_full_polled)
{
	shared_set(WRITTEN, (long)fill(fd, 1));
	R(shutdown(fd, SHUT_WR));
	post(FULL);
	await(GO_ON);
}

/* More is asked for than there will ever be. */
PAIR(shut_peek_waitall, 0);

SERVER(shut_peek_waitall)
{
	char b[16];

	await(FULL);
	R(recv(fd, b, sizeof(b), MSG_PEEK | MSG_WAITALL));
	R(recv(fd, b, sizeof(b), MSG_WAITALL));
	R(recv(fd, b, sizeof(b), MSG_PEEK | MSG_WAITALL));
}

CLIENT(shut_peek_waitall)
{
	send_all(fd, "abcde", 5);
	R(shutdown(fd, SHUT_WR));
	post(FULL);
}

PAIR(shut_full_waitall, 0);

SERVER(shut_full_waitall)
{
	size_t size = 1 << 24;
	char *b = malloc(size);

	await(FULL);
	ssize_t n = recv(fd, b, size, MSG_WAITALL);
	say("all: %s", n == shared_get(WRITTEN) ? "yes" : "no");
	YES(pattern_check(b, 1, 0, n > 0 ? (size_t)n : 0));
	R(recv(fd, b, size, 0));
	free(b);
}

CLIENT(shut_full_waitall)
{
	shared_set(WRITTEN, (long)fill(fd, 1));
	R(shutdown(fd, SHUT_WR));
	post(FULL);
}
