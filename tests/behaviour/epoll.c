/* SPDX-License-Identifier: BSD-2-Clause */

/* One connection in one or more epoll sets: masks, modes, errors. */

#include "epoll_set.h"
#include "harness.h"

PAIR(epoll_level, 0);

SERVER(epoll_level)
{
	char b[16];
	int ep = set_new();
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	say_wait("nothing", ep, 20);
	post(0);
	say_wait("first", ep, 5000);
	say_wait("again", ep, 0);
	MUST(wait_queued(fd, 3));
	R(recv(fd, b, 2, 0));
	say_wait("rest", ep, 0);
	R(recv(fd, b, sizeof(b), 0));
	say_wait("empty", ep, 0);
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 2));
	say_wait("out", ep, 0);
	post(1);
	MUST(wait_queued(fd, 3));
	/* One entry with both bits. */
	say_wait("both", ep, 0);
	R(ctl(ep, EPOLL_CTL_MOD, fd, 0, 3));
	say_wait("not asked", ep, 20);
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN, 4));
	say_wait("asked again", ep, 0);
	R(ctl(ep, EPOLL_CTL_DEL, fd, 0, 0));
	say_wait("deleted", ep, 20);
	R(recv(fd, b, sizeof(b), 0));
	close(ep);
}

CLIENT(epoll_level)
{
	await(0);
	send_all(fd, "abc", 3);
	await(1);
	send_all(fd, "def", 3);
}

PAIR(epoll_edge, 0);

SERVER(epoll_edge)
{
	char b[16];
	int ep = set_new();
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 1));
	post(0);
	say_wait("first", ep, 5000);
	say_wait("no edge", ep, 20);
	R(recv(fd, b, 1, 0));
	say_wait("no edge after a part", ep, 20);
	post(1);
	MUST(wait_queued(fd, 5));
	say_wait("new data", ep, 5000);
	say_wait("no edge", ep, 20);
	R(recv(fd, b, sizeof(b), 0));
	R(recv(fd, b, sizeof(b), MSG_DONTWAIT));
	say_wait("drained", ep, 20);
	post(2);
	say_wait("after drain", ep, 5000);
	/* A change arms it again. */
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 2));
	say_wait("after mod", ep, 0);
	say_wait("no edge", ep, 20);
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | EPOLLET, 3));
	say_wait("after mod", ep, 0);
	say_wait("no edge", ep, 20);
	R(recv(fd, b, sizeof(b), 0));
	say_wait("no edge", ep, 20);
	close(ep);
}

CLIENT(epoll_edge)
{
	for (int k = 0; k < 3; k++) {
		await(k);
		send_all(fd, "abc", 3);
	}
}

PAIR(epoll_oneshot, 0);

SERVER(epoll_oneshot)
{
	char b[16];
	int ep = set_new();
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLONESHOT, 1));
	post(0);
	say_wait("first", ep, 5000);
	say_wait("disarmed", ep, 20);
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 2));
	say_wait("armed", ep, 0);
	MUST(wait_queued(fd, 3));
	R(recv(fd, b, sizeof(b), 0));
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 3));
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT | EPOLLET, 3));
	say_wait("armed, empty", ep, 20);
	post(1);
	say_wait("data", ep, 5000);
	post(2);
	MUST(wait_queued(fd, 6));
	say_wait("disarmed", ep, 20);
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | EPOLLONESHOT, 4));
	say_wait("armed for both", ep, 0);
	say_wait("disarmed", ep, 20);
	/* Even the end of the connection is silent while it is disarmed. */
	post(3);
	MUST(wait_events(fd, POLLRDHUP, 5000));
	say_wait("disarmed", ep, 20);
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLRDHUP | EPOLLONESHOT, 5));
	say_wait("armed for the end", ep, 0);
	close(ep);
}

CLIENT(epoll_oneshot)
{
	for (int k = 0; k < 3; k++) {
		await(k);
		send_all(fd, "abc", 3);
	}
	await(3);
	shutdown(fd, SHUT_WR);
}

static volatile int minus_one = -1; /* the compiler would complain */

PAIR(epoll_ctl_errors, 0);

SERVER(epoll_ctl_errors)
{
	int ep = set_new(), file = open("/proc/self/status", O_RDONLY), gone = dup(fd);
	static volatile uintptr_t low = 64;
	struct epoll_event out[4];
	close(gone);
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN, 1));
	R(ctl(ep, EPOLL_CTL_DEL, fd, 0, 0));
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(ctl(ep, EPOLL_CTL_ADD, ep, EPOLLIN, 1));
	R(ctl(fd, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(ctl(ep, EPOLL_CTL_ADD, gone, EPOLLIN, 1));
	R(ctl(-1, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(ctl(ep, EPOLL_CTL_ADD, -1, EPOLLIN, 1));
	R(ctl(ep, 77, fd, EPOLLIN, 1));
	R(ctl(ep, EPOLL_CTL_ADD, file, EPOLLIN, 1));
	R(epoll_ctl(ep, EPOLL_CTL_MOD, fd, NULL));
	R(epoll_ctl(ep, EPOLL_CTL_MOD, fd, (struct epoll_event *)low));
	R(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	R(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, NULL));
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(epoll_wait(-1, out, 4, 0));
	R(epoll_wait(fd, out, 4, 0));
	R(epoll_wait(ep, out, 0, 0));
	R(epoll_wait(ep, out, minus_one, 0));
	R(epoll_wait(ep, out, 4, 0));
	R(epoll_create(0));
	R(epoll_create1(77));
	post(0);
	MUST(wait_queued(fd, 3));
	R(epoll_wait(ep, (struct epoll_event *)low, 4, 0));
	R(epoll_wait(ep, out, 4, 1000));
	post(1);
	MUST(wait_events(fd, POLLRDHUP, 5000));
	/* The peer's end changes nothing about what can be changed. */
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLRDHUP, 2));
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(ctl(ep, EPOLL_CTL_DEL, fd, 0, 0));
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, 3));
	say_wait("end", ep, 0);
}

CLIENT(epoll_ctl_errors)
{
	await(0);
	send_all(fd, "abc", 3);
	await(1);
	close(fd);
}

PAIR(epoll_two_sets, 0);

SERVER(epoll_two_sets)
{
	char b[16];
	int one = set_new(), two = set_new(), three = set_new();
	R(ctl(one, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(ctl(two, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 2));
	R(ctl(three, EPOLL_CTL_ADD, fd, EPOLLOUT, 3));
	post(0);
	say_wait("one", one, 5000);
	say_wait("two", two, 5000);
	say_wait("three", three, 0);
	say_wait("one", one, 0);
	say_wait("two", two, 20);
	MUST(wait_queued(fd, 3));
	R(recv(fd, b, sizeof(b), 0));
	say_wait("one", one, 20);
	R(ctl(one, EPOLL_CTL_DEL, fd, 0, 0));
	post(1);
	say_wait("two", two, 5000);
	say_wait("one", one, 20);
	MUST(wait_queued(fd, 3));
	R(recv(fd, b, sizeof(b), 0));
	close(two);
	post(2);
	R(ctl(three, EPOLL_CTL_MOD, fd, EPOLLIN, 4));
	say_wait("three", three, 5000);
}

CLIENT(epoll_two_sets)
{
	for (int k = 0; k < 3; k++) {
		await(k);
		send_all(fd, "abc", 3);
	}
}

/* Two numbers for one socket in the same set are two entries. */
PAIR(epoll_dups_in_one_set, 0);

SERVER(epoll_dups_in_one_set)
{
	char b[16];
	int ep = set_new(), twin = dup(fd);
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(ctl(ep, EPOLL_CTL_ADD, twin, EPOLLIN | EPOLLOUT, 2));
	say_wait("out", ep, 20);
	post(0);
	MUST(wait_queued(fd, 3));
	say_wait("both", ep, 0);
	R(recv(twin, b, sizeof(b), 0));
	say_wait("out", ep, 0);
	/* The entry of a number lives until all numbers of the socket are closed. */
	R(ctl(ep, EPOLL_CTL_MOD, twin, EPOLLIN, 2));
	R(close(fd));
	post(1);
	MUST(wait_queued(twin, 3));
	say_wait("both still", ep, 0);
	R(recv(twin, b, sizeof(b), 0));
	R(close(twin));
	say_wait("none", ep, 20);
}

CLIENT(epoll_dups_in_one_set)
{
	for (int k = 0; k < 2; k++) {
		await(k);
		send_all(fd, "abc", 3);
	}
	char c;
	R(recv(fd, &c, 1, 0));
}

/* A set in a set, a set in poll and select. */
PAIR(epoll_nested, 0);

SERVER(epoll_nested)
{
	char b[16];
	int inner = set_new(), middle = set_new(), outer = set_new();
	R(ctl(inner, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(ctl(middle, EPOLL_CTL_ADD, inner, EPOLLIN, 2));
	R(ctl(outer, EPOLL_CTL_ADD, middle, EPOLLIN, 3));
	R(ctl(inner, EPOLL_CTL_ADD, outer, EPOLLIN, 4));
	say_wait("outer", outer, 20);
	say_events("poll of inner", wait_events(inner, POLLIN, 0));
	post(0);
	say_events("poll of outer", wait_events(outer, POLLIN, 5000));
	say_wait("outer", outer, 0);
	say_wait("middle", middle, 0);
	say_wait("inner", inner, 0);
	fd_set set;
	FD_ZERO(&set);
	FD_SET(inner, &set);
	R(select(inner + 1, &set, NULL, NULL, NULL));
	MUST(wait_queued(fd, 3));
	R(recv(fd, b, sizeof(b), 0));
	say_wait("outer", outer, 20);
	say_events("poll of outer", wait_events(outer, POLLIN, 0));
	post(1);
	say_wait("outer", outer, 5000);
	R(close(inner));
	say_wait("outer", outer, 20);
}

CLIENT(epoll_nested)
{
	for (int k = 0; k < 2; k++) {
		await(k);
		send_all(fd, "abc", 3);
	}
}
