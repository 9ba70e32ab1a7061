/* SPDX-License-Identifier: BSD-2-Clause */

/* Epoll sets with many members, of different kinds, used by several threads. */

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "epoll_set.h"
#include "harness.h"

/* One at a time, with many ready: everyone gets a turn. */
SOLO(epoll_one_at_a_time, 0)
{
	enum { N = 50 };
	static int pairs[N][2];
	int seen[N] = { 0 }, ep = set_new(), served = 0;
	for (int i = 0; i < N; i++)
		self_pair_cold(pairs[i]);
	warm_up_many(pairs, N);
	for (int i = 0; i < N; i++) {
		MUST(!ctl(ep, EPOLL_CTL_ADD, pairs[i][1], EPOLLIN, (unsigned)i));
		MUST(send(pairs[i][0], "x", 1, 0) == 1);
	}
	for (int i = 0; i < N; i++)
		MUST(wait_queued(pairs[i][1], 1));
	for (int i = 0; i < N * 2; i++) {
		struct epoll_event e = { 0 };
		if (epoll_wait(ep, &e, 1, 1000) == 1 && e.events == EPOLLIN)
			seen[e.data.u32]++;
	}
	for (int i = 0; i < N; i++)
		served += seen[i] == 2;
	/* Level triggered entries go round. */
	say("served twice each: %d", served);
	for (int i = 0; i < N; i++) {
		struct epoll_event e = { 0 };
		char c;
		MUST(epoll_wait(ep, &e, 1, 1000) == 1);
		MUST(recv(pairs[e.data.u32][1], &c, 1, 0) == 1);
		seen[e.data.u32] = 9;
	}
	served = 0;
	for (int i = 0; i < N; i++)
		served += seen[i] == 9;
	say("emptied: %d", served);
	R(epoll_wait(ep, (struct epoll_event[1]){ { 0 } }, 1, 20));
}

SOLO(epoll_thousand, 0)
{
	enum { N = 1000 };
	static int pairs[N][2];
	static struct epoll_event e[N];
	int ep = set_new(), wrong = 0;
	for (int i = 0; i < N; i++)
		self_pair_cold(pairs[i]);
	warm_up_many(pairs, N);
	for (int i = 0; i < N; i++)
		MUST(!ctl(ep, EPOLL_CTL_ADD, pairs[i][1], EPOLLIN, (unsigned)i));
	R(epoll_wait(ep, e, N, 0));
	for (int i = 0; i < N; i += 7) {
		MUST(send(pairs[i][0], "x", 1, 0) == 1);
		struct epoll_event one = { 0 };
		char c;
		if (epoll_wait(ep, &one, 1, 1000) != 1 || one.data.u32 != (unsigned)i)
			wrong++;
		MUST(recv(pairs[i][1], &c, 1, 0) == 1);
	}
	say("wrong %d", wrong);
	for (int i = 0; i < N; i++)
		MUST(send(pairs[i][0], "y", 1, 0) == 1);
	int got = 0;
	while (got < N) {
		int n = epoll_wait(ep, e, N, 1000);
		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			char c;
			got += recv(pairs[e[i].data.u32][1], &c, 1, MSG_DONTWAIT) == 1;
		}
	}
	say("got %d", got);
	for (int i = 0; i < N; i++)
		close(pairs[i][0]);
	got = 0;
	while (got < N) {
		int n = epoll_wait(ep, e, N, 1000);
		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			got++;
			close(pairs[e[i].data.u32][1]);
		}
	}
	say("ended %d", got);
	R(epoll_wait(ep, e, N, 0));
}

/* A busy connection does not keep the others of the set waiting. */
PAIR(epoll_no_starvation, 0);

SERVER(epoll_no_starvation)
{
	static char b[65536];
	int ep = set_new(), pipes[2], event = eventfd(0, 0);
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec every = { .it_interval = { .tv_nsec = 10000000 },
				    .it_value = { .tv_nsec = 10000000 } };
	MUST(!pipe(pipes));
	MUST(!timerfd_settime(timer, 0, &every, NULL));
	ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 0);
	ctl(ep, EPOLL_CTL_ADD, timer, EPOLLIN, 1);
	ctl(ep, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 2);
	ctl(ep, EPOLL_CTL_ADD, event, EPOLLIN, 3);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int sig = signalfd(-1, &set, 0);
	ctl(ep, EPOLL_CTL_ADD, sig, EPOLLIN, 4);
	post(0);
	int seen[5] = { 0 }, rounds = 0;
	long end = now_ms() + 4000;
	while (now_ms() < end && (seen[1] < 20 || seen[2] < 20 || seen[3] < 20 || seen[4] < 20)) {
		struct epoll_event e;
		uint64_t one = 1;
		if (rounds++ % 50 == 0) {
			MUST(write(pipes[1], "x", 1) == 1);
			MUST(write(event, &one, 8) == 8);
			raise(SIGUSR1);
		}
		if (epoll_wait(ep, &e, 1, 1000) != 1)
			break;
		seen[e.data.u32]++;
		if (e.data.u32 == 0)
			MUST(recv(fd, b, 1000, 0) > 0);
		else
			MUST(read(e.data.u32 == 1   ? timer
				  : e.data.u32 == 2 ? pipes[0]
				  : e.data.u32 == 3 ? event
						    : sig,
				  b, e.data.u32 == 2 ? 1 : 128) > 0);
	}
	say("timer %d pipe %d eventfd %d signalfd %d busy %d", seen[1] >= 20, seen[2] >= 20,
	    seen[3] >= 20, seen[4] >= 20, seen[0] > 20);
	shared_set(0, 1);
	while (recv(fd, b, sizeof(b), 0) > 0)
		;
}

CLIENT(epoll_no_starvation)
{
	static char b[16384];
	await(0);
	while (!shared_get(0)) {
		if (wait_events(fd, POLLOUT, 100))
			MUST(send(fd, b, sizeof(b), MSG_DONTWAIT) > 0 || errno == EAGAIN);
	}
	shutdown(fd, SHUT_WR);
}

/* A wait for plain descriptors and idle accelerated ones ends at once for either kind. */
PAIR(epoll_mixed_kinds, 0);

SERVER(epoll_mixed_kinds)
{
	int ep = set_new(), pipes[2];
	char b[8];
	MUST(!pipe(pipes));
	ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
	ctl(ep, EPOLL_CTL_ADD, pipes[0], EPOLLIN | EPOLLET, 2);
	for (int i = 0; i < 20; i++) {
		struct epoll_event e[4] = { { 0 } };
		if (i % 2)
			MUST(write(pipes[1], "x", 1) == 1);
		else
			post(0);
		long start = now_ms();
		int n = epoll_wait(ep, e, 4, 3000);
		say("%d: %d from %u in time %d", i, n, e[0].data.u32, now_ms() - start < 1000);
		MUST(read(i % 2 ? pipes[0] : fd, b, 1) == 1);
	}
	/* Both at once. */
	struct epoll_event e[4] = { { 0 } };
	post(0);
	MUST(wait_queued(fd, 1));
	MUST(write(pipes[1], "x", 1) == 1);
	R(epoll_wait(ep, e, 4, 1000));
	say("data %u", e[0].data.u32 + e[1].data.u32);
}

CLIENT(epoll_mixed_kinds)
{
	for (int i = 0; i < 11; i++) {
		await_n(0, i + 1);
		if (i % 3 == 0)
			nap(10);
		send_all(fd, "x", 1);
	}
}

/*
 * Pitfall 9: while connections go up one after the other in the middle of their traffic, each is told once in a
 * wait, and not for nothing: a server with blocking descriptors reads once for each event.
 */
enum { CROWD = 150, CROWDS = 8, TALKS = 10 };

ROLE(epoll_told_once, crowd)
{
	static int fds[CROWD];
	char b[100] = "";
	for (int i = 0; i < CROWDS; i++) {
		for (int k = 0; k < CROWD; k++)
			fds[k] = connect_to(AF_INET, (uint16_t)shared_get(0));
		for (int talk = 0; talk < TALKS; talk++) {
			for (int k = 0; k < CROWD; k++)
				send_all(fds[k], b, sizeof(b));
			for (int k = 0; k < CROWD; k++)
				recv_all(fds[k], b, sizeof(b));
		}
		for (int k = 0; k < CROWD; k++)
			close(fds[k]);
	}
}

SOLO(epoll_told_once, SOME_TCP)
{
	static struct epoll_event events[CROWD + 1];
	static bool told[CROWD + 64];
	char b[200];
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port), ep = set_new();
	int members = 1, ended = 0, twice = 0, in_vain = 0, answers = 0;
	MUST(!ctl(ep, EPOLL_CTL_ADD, listener, EPOLLIN, (unsigned)listener));
	shared_set(0, port);
	pid_t crowd = spawn_role("crowd", 0);
	while (ended < CROWD * CROWDS) {
		/* No more room than there are members: the library's own entries compete for it. */
		int n = epoll_wait(ep, events, members, 5000);
		if (n <= 0)
			break;
		memset(told, 0, sizeof(told));
		for (int i = 0; i < n; i++) {
			int fd = (int)events[i].data.u32;
			MUST(fd < (int)sizeof(told));
			twice += told[fd];
			told[fd] = true;
			if (fd == listener) {
				int peer = accept(listener, NULL, NULL);
				MUST(!ctl(ep, EPOLL_CTL_ADD, peer, EPOLLIN, (unsigned)peer));
				members++;
				continue;
			}
			ssize_t got = recv(fd, b, sizeof(b), MSG_DONTWAIT);
			if (got > 0) {
				send_all(fd, b, (size_t)got);
				answers += (int)got;
			} else if (got < 0 && errno == EAGAIN) {
				in_vain++;
			} else {
				close(fd);
				members--;
				ended++;
			}
		}
	}
	say("ended %d answered %d twice %d in vain %d", ended, answers, twice, in_vain);
	say_status("crowd", reap(crowd));
}
