/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Built with _FORTIFY_SOURCE: the compiler calls __recv_chk, __read_chk, __recvfrom_chk, __poll_chk,
 * __ppoll_chk and __fdelt_chk where it knows the size of the buffer, but not that of the request.
 */

#include <sys/select.h>

#include "harness.h"

static volatile size_t want = 10;
static volatile nfds_t one = 1;

PAIR(fortify_calls, 0);

SERVER(fortify_calls)
{
	char b[16] = "";
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = -1 } };
	struct timespec t = { .tv_sec = 5 };
	struct sockaddr_storage a;
	socklen_t size = sizeof(a);
	fd_set set;
	post(0);
	R(poll(p, one, 5000));
	R(ppoll(p, one, &t, NULL));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	R(select(fd + 1, &set, NULL, NULL, NULL));
	R(FD_ISSET(fd, &set) != 0);
	MUST(wait_queued(fd, 40));
	R(recv(fd, b, want, 0));
	say("got %.10s", b);
	R(read(fd, b, want));
	say("got %.10s", b);
	R(recvfrom(fd, b, want, 0, (struct sockaddr *)&a, &size));
	say("got %.10s", b);
	R(recv(fd, b, want, MSG_PEEK));
	R(recv(fd, b, want, MSG_WAITALL));
	say("got %.10s", b);
	R(recv(fd, b, want, MSG_DONTWAIT));
}

CLIENT(fortify_calls)
{
	await(0);
	send_all(fd, "0123456789abcdefghijklmnopqrstuvwxyzABCD", 40);
}

/* A request larger than the buffer is still found out. */
PAIR(fortify_overflow, 0);

SERVER(fortify_overflow)
{
	pid_t child = fork();
	if (!child) {
		char b[16];
		want = 100;
		fclose(stderr);
		close(2);
		R(recv(fd, b, want, 0));
		exit(0);
	}
	say_status("child", reap(child));
}

CLIENT(fortify_overflow)
{
	send_all(fd, "abc", 3);
}
