/* SPDX-License-Identifier: BSD-2-Clause */

/* The plain forms of sending and receiving, one after the other. */

#include <sys/uio.h>

#include "harness.h"

PAIR(data_echo_sizes, 0);

static const size_t echo_sizes[] = { 1,	    2,	    7,	    8,	    63,	    64,	    65,	   255,
				     1024,  1460,   4095,   4096,   4097,   16384,  65535, 65536,
				     65537, 100000, 131072, 262144, 262145, 1048576 };

SERVER(data_echo_sizes)
{
	size_t offset = 0;
	for (size_t i = 0; i < sizeof(echo_sizes) / sizeof(echo_sizes[0]); i++) {
		bool ok = pattern_recv(fd, 1, offset, echo_sizes[i], 50000);
		pattern_send(fd, 2, offset, echo_sizes[i], echo_sizes[i]);
		offset += echo_sizes[i];
		say("%zu bytes intact: %d", echo_sizes[i], ok);
	}
}

CLIENT(data_echo_sizes)
{
	size_t offset = 0;
	for (size_t i = 0; i < sizeof(echo_sizes) / sizeof(echo_sizes[0]); i++) {
		pattern_send(fd, 1, offset, echo_sizes[i], echo_sizes[i]);
		bool ok = pattern_recv(fd, 2, offset, echo_sizes[i], 70000);
		offset += echo_sizes[i];
		say("%zu bytes back intact: %d", echo_sizes[i], ok);
	}
}

/* Every call that writes, each read by every call that reads: the stream has no seams. */
PAIR(data_all_forms, 0);

static ssize_t write_form(int form, int fd, char *p, size_t n)
{
	struct iovec v[2] = { { p, n / 2 }, { p + n / 2, n - n / 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	struct mmsghdr mm[2] = { { .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } },
				 { .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } } };
	switch (form) {
	case 0:
		return write(fd, p, n);
	case 1:
		return send(fd, p, n, 0);
	case 2:
		return sendto(fd, p, n, 0, NULL, 0);
	case 3:
		return sendmsg(fd, &m, 0);
	case 4:
		return writev(fd, v, 2);
	case 5:
		return pwritev2(fd, v, 2, -1, 0);
	case 6:
		return sendmmsg(fd, mm, 2, 0) == 2 ? (ssize_t)mm[0].msg_len + (ssize_t)mm[1].msg_len
						   : -1;
	}
	return -1;
}

static ssize_t read_form(int form, int fd, char *p, size_t n)
{
	struct iovec v[2] = { { p, n / 2 }, { p + n / 2, n - n / 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	struct mmsghdr mm[2] = { { .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } },
				 { .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } } };
	switch (form) {
	case 0:
		return read(fd, p, n);
	case 1:
		return recv(fd, p, n, 0);
	case 2:
		return recvfrom(fd, p, n, 0, NULL, NULL);
	case 3:
		return recvmsg(fd, &m, 0);
	case 4:
		return readv(fd, v, 2);
	case 5:
		return preadv2(fd, v, 2, -1, 0);
	case 6:
		return recvmmsg(fd, mm, 2, 0, NULL) == 2
			       ? (ssize_t)mm[0].msg_len + (ssize_t)mm[1].msg_len
			       : -1;
	}
	return -1;
}

enum { FORMS = 7, FORM_SIZE = 1000 };

SERVER(data_all_forms)
{
	char buffer[FORM_SIZE];
	size_t offset = 0;
	for (int w = 0; w < FORMS; w++)
		for (int r = 0; r < FORMS; r++) {
			await(w * FORMS + r);
			ssize_t n = read_form(r, fd, buffer, sizeof(buffer));
			say("written by form %d, read by form %d: %zd intact %d", w, r, n,
			    n > 0 && pattern_check(buffer, 3, offset, (size_t)n));
			offset += FORM_SIZE;
			send_all(fd, "x", 1);
		}
}

CLIENT(data_all_forms)
{
	char buffer[FORM_SIZE], c;
	size_t offset = 0;
	for (int w = 0; w < FORMS; w++)
		for (int r = 0; r < FORMS; r++) {
			pattern_fill(buffer, 3, offset, sizeof(buffer));
			say("form %d: %zd", w, write_form(w, fd, buffer, sizeof(buffer)));
			offset += FORM_SIZE;
			post(w * FORMS + r);
			recv_all(fd, &c, 1);
		}
}

/* A read returns what is there, up to what was asked for, over the borders of writes. */
PAIR(data_short_reads, 0);

SERVER(data_short_reads)
{
	char b[64] = "";
	await(0);
	R(recv(fd, b, 3, 0));
	R(recv(fd, b + 3, 1, 0));
	R(recv(fd, b + 4, sizeof(b) - 4, 0));
	say("got %s", b);
	post(1);
}

CLIENT(data_short_reads)
{
	R(send(fd, "ab", 2, 0));
	R(send(fd, "cdefg", 5, 0));
	R(write(fd, "hij", 3));
	post(0);
	await(1);
}

PAIR(data_zero_length, 0);

SERVER(data_zero_length)
{
	char b[8] = "";
	struct iovec none = { b, 0 };
	struct msghdr m = { .msg_iov = &none, .msg_iovlen = 1 };
	struct msghdr empty = { 0 };
	await(0);
	R(read(fd, b, 0));
	R(recv(fd, b, 0, 0));
	R(recv(fd, NULL, 0, 0));
	R(recv(fd, b, 0, MSG_DONTWAIT));
	R(recv(fd, b, 0, MSG_PEEK));
	R(readv(fd, &none, 1));
	R(readv(fd, &none, 0));
	R(recvmsg(fd, &m, 0));
	R(recvmsg(fd, &empty, 0));
	R(recv(fd, b, sizeof(b), 0));
	say("got %s", b);
	/* Nothing is queued now. */
	R(read(fd, b, 0));
	R(recv(fd, b, 0, MSG_DONTWAIT));
	post(1);
	await(2);
	R(recv(fd, b, sizeof(b), 0));
	R(read(fd, b, 0));
	R(recv(fd, b, 0, 0));
}

CLIENT(data_zero_length)
{
	struct iovec none = { NULL, 0 };
	struct msghdr m = { .msg_iov = &none, .msg_iovlen = 1 };
	struct msghdr empty = { 0 };
	R(write(fd, "", 0));
	R(send(fd, "", 0, 0));
	R(send(fd, NULL, 0, 0));
	R(writev(fd, &none, 1));
	R(writev(fd, &none, 0));
	R(sendmsg(fd, &m, 0));
	R(sendmsg(fd, &empty, 0));
	R(send(fd, "abc", 3, 0));
	R(send(fd, "", 0, 0));
	post(0);
	await(1);
	R(shutdown(fd, SHUT_WR));
	R(send(fd, "", 0, MSG_NOSIGNAL));
	post(2);
}

PAIR(data_nonblocking_empty, NONBLOCK);

SERVER(data_nonblocking_empty)
{
	char b[8];
	struct iovec v = { b, sizeof(b) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct mmsghdr mm = { .msg_hdr = m };
	R(recv(fd, b, sizeof(b), 0));
	R(read(fd, b, sizeof(b)));
	R(readv(fd, &v, 1));
	R(recvmsg(fd, &m, 0));
	R(recvmmsg(fd, &mm, 1, 0, NULL));
	R(recvfrom(fd, b, sizeof(b), 0, NULL, NULL));
	R(preadv2(fd, &v, 1, -1, 0));
	R(recv(fd, b, sizeof(b), MSG_PEEK));
	R(recv(fd, b, sizeof(b), MSG_WAITALL));
	post(0);
	MUST(wait_events(fd, POLLIN, 5000));
	R(recv(fd, b, sizeof(b), 0));
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(data_nonblocking_empty)
{
	await(0);
	R(send(fd, "hello", 5, 0));
}

PAIR(data_v6_echo, V6);

SERVER(data_v6_echo)
{
	say("intact %d", pattern_recv(fd, 4, 0, 300000, 65536));
	pattern_send(fd, 5, 0, 300000, 65536);
}

CLIENT(data_v6_echo)
{
	pattern_send(fd, 4, 0, 300000, 65536);
	say("intact %d", pattern_recv(fd, 5, 0, 300000, 65536));
}

PAIR(data_mapped_echo, MAPPED);

SERVER(data_mapped_echo)
{
	struct sockaddr_in6 a;
	socklen_t size = sizeof(a);
	R(getpeername(fd, (struct sockaddr *)&a, &size));
	say("family v6 %d, mapped %d, size %u", a.sin6_family == AF_INET6,
	    IN6_IS_ADDR_V4MAPPED(&a.sin6_addr), size);
	say("intact %d", pattern_recv(fd, 4, 0, 300000, 65536));
	pattern_send(fd, 5, 0, 300000, 65536);
}

CLIENT(data_mapped_echo)
{
	pattern_send(fd, 4, 0, 300000, 65536);
	say("intact %d", pattern_recv(fd, 5, 0, 300000, 65536));
}

/* Both ends forked from one process, not executed. */
PAIR(data_forked_echo, FORKED);

SERVER(data_forked_echo)
{
	say("intact %d", pattern_recv(fd, 4, 0, 300000, 65536));
	pattern_send(fd, 5, 0, 300000, 65536);
}

CLIENT(data_forked_echo)
{
	pattern_send(fd, 4, 0, 300000, 65536);
	say("intact %d", pattern_recv(fd, 5, 0, 300000, 65536));
}

/* Without a warm-up the change of carrier comes somewhere in the middle. */
PAIR(data_cold_stream, COLD);

SERVER(data_cold_stream)
{
	bool ok = true;
	for (size_t i = 0; i < 2000; i++) {
		ok = ok && pattern_recv(fd, 6, i * 37, 37, 1000);
		pattern_send(fd, 7, i * 53, 53, 53);
	}
	say("intact %d", ok);
}

CLIENT(data_cold_stream)
{
	bool ok = true;
	for (size_t i = 0; i < 2000; i++) {
		pattern_send(fd, 6, i * 37, 37, 20);
		ok = ok && pattern_recv(fd, 7, i * 53, 53, 10);
	}
	say("intact %d", ok);
}

/* One way only, while the change happens: the receiver never writes. */
PAIR(data_one_way, COLD | MAY_BE_TCP);

SERVER(data_one_way)
{
	say("intact %d", pattern_recv(fd, 8, 0, 8 << 20, 100000));
}

CLIENT(data_one_way)
{
	for (size_t at = 0; at < 8 << 20; at += 1024)
		pattern_send(fd, 8, at, 1024, 1024);
}
