/* SPDX-License-Identifier: BSD-2-Clause */

/* Small exchanges that several scenarios use. */

#include "harness.h"

enum { SIZE = 1 << 20, ALL_EVENTS = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

bool echo_check(int fd, uint32_t seed)
{
	size_t sent = 0, got = 0;
	char b[8192];
	while (got < SIZE) {
		if (sent < SIZE && sent - got < 65536) {
			pattern_fill(b, seed, sent, sizeof(b));
			send_all(fd, b, sizeof(b));
			sent += sizeof(b);
			continue;
		}
		ssize_t n = recv(fd, b, sizeof(b), 0);
		if (n <= 0 || !pattern_check(b, seed, got, (size_t)n))
			return false;
		got += (size_t)n;
	}
	return true;
}

ssize_t echo_until_end(int fd)
{
	char b[20000];
	ssize_t n;
	while ((n = recv(fd, b, sizeof(b), 0)) > 0)
		send_all(fd, b, (size_t)n);
	return n;
}

void say_poll_with(int fd, unsigned bits)
{
	long end = now_ms() + 5000;
	unsigned have;
	while (!((have = wait_events(fd, ALL_EVENTS, 0)) & bits) && now_ms() < end)
		nap(1);
	say_events("poll", have);
}

int try_connect(int fd, int family, uint16_t port)
{
	struct sockaddr_storage a;
	socklen_t size = loopback(&a, family, port);
	return connect(fd, (struct sockaddr *)&a, size);
}
