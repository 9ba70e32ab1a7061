/* SPDX-License-Identifier: BSD-2-Clause */

/* The MSG_* flags, known and unknown, and what recvmsg reports back. */

#include <sys/uio.h>

#include "harness.h"

PAIR(flags_peek, 0);

SERVER(flags_peek)
{
	char b[16] = "";
	struct iovec v[2] = { { b, 2 }, { b + 8, 8 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	await(0);
	R(recv(fd, b, 3, MSG_PEEK));
	say("peeked %.3s", b);
	R(recv(fd, b, sizeof(b), MSG_PEEK));
	say("peeked %.6s", b);
	R(recv(fd, b, 2, 0));
	say("got %.2s", b);
	R(recv(fd, b, sizeof(b), MSG_PEEK | MSG_DONTWAIT));
	say("peeked %.4s", b);
	R(recvmsg(fd, &m, MSG_PEEK));
	say("peeked %.2s %.2s", b, b + 8);
	post(1);
	await(2);
	R(recv(fd, b, sizeof(b), MSG_PEEK));
	say("peeked %.7s", b);
	R(recv(fd, b, sizeof(b), 0));
	say("got %.7s", b);
	R(recv(fd, b, sizeof(b), MSG_PEEK | MSG_DONTWAIT));
	post(3);
	MUST(wait_events(fd, POLLIN, 5000));
	R(recv(fd, b, sizeof(b), MSG_PEEK));
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(flags_peek)
{
	send_all(fd, "abcdef", 6);
	post(0);
	await(1);
	send_all(fd, "ghi", 3);
	post(2);
	await(3);
	shutdown(fd, SHUT_WR);
}

/* A peek that has to wait, and peeks as big as everything that is queued. */
PAIR(flags_peek_blocks, 0);

SERVER(flags_peek_blocks)
{
	char *b = malloc(200000);
	MUST(b);
	post(0);
	long n = R(recv(fd, b, 200000, MSG_PEEK));
	say("peeked %.4s", n > 0 ? b : "");
	R(recv(fd, b, 4, 0));
	post(1);
	MUST(wait_queued(fd, 100000));
	R(recv(fd, b, 100000, MSG_PEEK));
	say("intact %d", pattern_check(b, 1, 0, 100000));
	R(recv(fd, b, 99999, MSG_WAITALL));
	say("intact %d", pattern_check(b, 1, 0, 99999));
	R(recv(fd, b, 10, MSG_PEEK));
	say("intact %d", pattern_check(b, 1, 99999, 1));
	recv_all(fd, b, 1);
	free(b);
}

CLIENT(flags_peek_blocks)
{
	await(0);
	nap(50);
	send_all(fd, "wxyz", 4);
	await(1);
	pattern_send(fd, 1, 0, 100000, 30000);
}

PAIR(flags_waitall, 0);

SERVER(flags_waitall)
{
	char b[64] = "";
	struct iovec v[2] = { { b, 6 }, { b + 6, 6 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	post(0);
	R(recv(fd, b, 10, MSG_WAITALL));
	say("got %.10s", b);
	post(1);
	R(recvmsg(fd, &m, MSG_WAITALL));
	say("got %.12s", b);
	R(recv(fd, b, 10, MSG_WAITALL | MSG_DONTWAIT));
	post(2);
	await(3);
	R(recv(fd, b, 10, MSG_WAITALL | MSG_DONTWAIT));
	post(4);
	/* The end of the stream ends it too. */
	R(recv(fd, b, 10, MSG_WAITALL));
	R(recv(fd, b, 10, MSG_WAITALL));
}

CLIENT(flags_waitall)
{
	await(0);
	for (int i = 0; i < 10; i++) {
		nap(2);
		send_all(fd, &"0123456789"[i], 1);
	}
	await(1);
	for (int i = 0; i < 12; i += 3) {
		nap(2);
		send_all(fd, &"abcdefghijkl"[i], 3);
	}
	await(2);
	send_all(fd, "xyz", 3);
	post(3);
	await(4);
	send_all(fd, "1234", 4);
	nap(20);
	shutdown(fd, SHUT_WR);
}

/* More than any buffer holds: the reader must take bytes while it waits. */
PAIR(flags_waitall_large, SMALL_BUF);

SERVER(flags_waitall_large)
{
	size_t size = 3 << 20;
	char *b = malloc(size);
	MUST(b);
	R(recv(fd, b, size, MSG_WAITALL));
	say("intact %d", pattern_check(b, 1, 0, size));
	free(b);
}

CLIENT(flags_waitall_large)
{
	pattern_send(fd, 1, 0, 3 << 20, 100000);
}

PAIR(flags_waitall_peek, 0);

SERVER(flags_waitall_peek)
{
	char b[16] = "";
	post(0);
	R(recv(fd, b, 6, MSG_WAITALL | MSG_PEEK));
	say("peeked %.6s", b);
	R(recv(fd, b, 6, 0));
	say("got %.6s", b);
	post(1);
	R(recv(fd, b, 6, MSG_WAITALL | MSG_PEEK));
	R(recv(fd, b, 6, MSG_WAITALL));
}

CLIENT(flags_waitall_peek)
{
	await(0);
	send_all(fd, "abc", 3);
	nap(30);
	send_all(fd, "def", 3);
	await(1);
	send_all(fd, "gh", 2);
	nap(30);
	shutdown(fd, SHUT_WR);
}

PAIR(flags_dontwait, 0);

SERVER(flags_dontwait)
{
	char b[8];
	R(recv(fd, b, 8, MSG_DONTWAIT));
	post(0);
	await(1);
	R(recv(fd, b, 8, MSG_DONTWAIT));
	R(recv(fd, b, 8, MSG_DONTWAIT));
	R(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

CLIENT(flags_dontwait)
{
	await(0);
	R(send(fd, "abc", 3, MSG_DONTWAIT));
	post(1);
	/* The flag is about one call only: the connection still blocks. */
	R(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* TCP throws bytes away on MSG_TRUNC. */
PAIR(flags_trunc, 0);

SERVER(flags_trunc)
{
	char b[16] = "................";
	await(0);
	R(recv(fd, NULL, 4, MSG_TRUNC));
	R(recv(fd, b, 3, MSG_TRUNC));
	say("buffer %.3s", b);
	R(recv(fd, b, 2, MSG_PEEK | MSG_TRUNC));
	R(recv(fd, b, 2, 0));
	say("got %.2s", b);
	R(recv(fd, b, 16, MSG_TRUNC | MSG_DONTWAIT));
	R(recv(fd, b, 16, MSG_TRUNC | MSG_DONTWAIT));
	post(1);
	R(recv(fd, NULL, 1 << 20, MSG_TRUNC | MSG_WAITALL));
	R(recv(fd, b, 3, MSG_WAITALL));
	say("got %.3s", b);
}

CLIENT(flags_trunc)
{
	send_all(fd, "0123456789abcdefgh", 18);
	post(0);
	await(1);
	pattern_send(fd, 1, 0, 1 << 20, 65536);
	send_all(fd, "end", 3);
}

PAIR(flags_more, 0);

SERVER(flags_more)
{
	char b[8] = "";
	R(recv(fd, b, 6, MSG_WAITALL));
	say("got %.6s", b);
	/* What was held back comes at last. */
	R(recv(fd, b, 3, MSG_WAITALL));
	say("got %.3s", b);
	say("intact %d", pattern_recv(fd, 1, 0, 100000, 4096));
}

CLIENT(flags_more)
{
	R(send(fd, "ab", 2, MSG_MORE));
	R(send(fd, "cd", 2, MSG_MORE));
	R(send(fd, "ef", 2, 0));
	R(send(fd, "ghi", 3, MSG_MORE));
	char b[1000];
	nap(300);
	for (size_t i = 0; i < 100; i++) {
		pattern_fill(b, 1, i * 1000, 1000);
		MUST(send(fd, b, 1000, i < 99 ? MSG_MORE : 0) == 1000);
	}
}

/* Every bit on its own, except those with a meaning tested elsewhere. */
PAIR(flags_every_bit_send, 0);

SERVER(flags_every_bit_send)
{
	char b[512];
	await(0);
	long total = shared_get(0);
	say("sent %ld in all", total);
	say("received %zd", recv(fd, b, (size_t)total, MSG_WAITALL));
	R(recv(fd, b, 1, MSG_DONTWAIT));
}

CLIENT(flags_every_bit_send)
{
	long total = 0;
	for (int bit = 1; bit < 32; bit++) {
		int flag = (int)(1u << bit);
		/* MSG_MORE holds back; MSG_ZEROCOPY and MSG_FASTOPEN depend on settings. */
		if (flag == MSG_MORE || flag == MSG_ZEROCOPY || flag == MSG_FASTOPEN)
			continue;
		char text[64];
		errno = 0;
		ssize_t n = send(fd, "abc", 3, flag);
		snprintf(text, sizeof(text), "send with bit %d", bit);
		report(text, n);
		total += n > 0 ? n : 0;
	}
	shared_set(0, total);
	post(0);
}

PAIR(flags_every_bit_recv, 0);

SERVER(flags_every_bit_recv)
{
	char b[16];
	for (int bit = 1; bit < 32; bit++) {
		int flag = (int)(1u << bit);
		if (flag == MSG_WAITALL)
			continue;
		await_n(0, bit);
		char text[64];
		errno = 0;
		ssize_t n = recv(fd, b, 8, flag);
		snprintf(text, sizeof(text), "recv with bit %d", bit);
		report(text, n);
		if (n < 0 || flag == MSG_PEEK)
			say("then %zd", recv(fd, b, 8, MSG_DONTWAIT));
		post(1);
	}
}

CLIENT(flags_every_bit_recv)
{
	for (int bit = 1, sent = 0; bit < 32; bit++) {
		if (1u << bit == MSG_WAITALL) {
			post(0);
			continue;
		}
		send_all(fd, "abcd", 4);
		post(0);
		await_n(1, ++sent);
	}
}

PAIR(flags_nosignal, 0);

SERVER(flags_nosignal)
{
	await(0);
	shutdown(fd, SHUT_RDWR);
	post(1);
}

CLIENT(flags_nosignal)
{
	on_signal(SIGPIPE, 0);
	R(shutdown(fd, SHUT_WR));
	struct iovec v = { (char *)(uintptr_t) "x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	say("signals %d", (int)signals_seen);
	R(sendmsg(fd, &m, MSG_NOSIGNAL));
	say("signals %d", (int)signals_seen);
	R(send(fd, "x", 1, 0));
	say("signals %d", (int)signals_seen);
	R(write(fd, "x", 1));
	say("signals %d", (int)signals_seen);
	R(writev(fd, &v, 1));
	say("signals %d", (int)signals_seen);
	R(sendmsg(fd, &m, 0));
	say("signals %d", (int)signals_seen);
	post(0);
	await(1);
}

/* Addresses given to and asked from a connected stream. */
PAIR(flags_addresses, 0);

SERVER(flags_addresses)
{
	char b[8] = "", control[64];
	struct sockaddr_storage a;
	socklen_t size = sizeof(a);
	struct iovec v = { b, sizeof(b) };
	struct msghdr m = { .msg_name = &a,
			    .msg_namelen = sizeof(a),
			    .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control),
			    .msg_flags = 0x7777 };
	await(0);
	R(recvfrom(fd, b, 2, 0, (struct sockaddr *)&a, &size));
	say("address size %u", size);
	R(recvmsg(fd, &m, MSG_PEEK));
	say("name %u control %zu flags 0x%x", m.msg_namelen, m.msg_controllen, m.msg_flags);
	R(recvmsg(fd, &m, MSG_CMSG_CLOEXEC));
	say("name %u control %zu flags 0x%x", m.msg_namelen, m.msg_controllen, m.msg_flags);
}

CLIENT(flags_addresses)
{
	struct sockaddr_storage a;
	socklen_t size = loopback(&a, AF_INET, 9);
	R(sendto(fd, "abc", 3, 0, (struct sockaddr *)&a, size));
	struct iovec v = { (char *)(uintptr_t) "def", 3 };
	struct msghdr m = { .msg_name = &a, .msg_namelen = size, .msg_iov = &v, .msg_iovlen = 1 };
	R(sendmsg(fd, &m, 0));
	post(0);
}

PAIR(flags_errqueue, 0);

SERVER(flags_errqueue)
{
	char b[8];
	await(0);
	R(recv(fd, b, sizeof(b), MSG_ERRQUEUE));
	R(recv(fd, b, sizeof(b), MSG_ERRQUEUE | MSG_DONTWAIT));
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(flags_errqueue)
{
	send_all(fd, "abc", 3);
	post(0);
}
