/* SPDX-License-Identifier: BSD-2-Clause */

/* Epoll sets that several threads use, and listeners in them. */

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "epoll_set.h"
#include "harness.h"

/* Two threads wait in one set; every message wakes somebody. */
static void wait_worker(struct worker *w)
{
	for (;;) {
		struct epoll_event e = { 0 };
		char b[8];
		if (epoll_wait((int)w->arg, &e, 1, 3000) != 1)
			break;
		int fd = (int)e.data.u32;
		ssize_t n = recv(fd, b, 1, MSG_DONTWAIT);
		if (n == 0)
			break;
		if (n == 1) {
			w->result++;
			send_all(fd, b, 1);
		}
		if (w->fd) /* oneshot */
			ctl((int)w->arg, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, (unsigned)fd);
	}
}

static void two_waiters(int fd, unsigned mode)
{
	int ep = set_new();
	struct worker w[2];
	memset(w, 0, sizeof(w));
	ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | mode, (unsigned)fd);
	for (int i = 0; i < 2; i++) {
		w[i].run = wait_worker;
		w[i].arg = ep;
		w[i].fd = mode == EPOLLONESHOT;
		worker_start(&w[i]);
	}
	/* Both end when the peer has closed; with edges only one is told. */
	await(0);
	if (mode == EPOLLET) {
		nap(100);
		ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN, (unsigned)fd);
	}
	worker_join(&w[0]);
	if (mode == EPOLLONESHOT)
		ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN, (unsigned)fd);
	worker_join(&w[1]);
	say("served %ld", w[0].result + w[1].result);
}

static void two_waiters_client(int fd)
{
	char c;
	for (int i = 0; i < 500; i++) {
		if (i % 50 == 0)
			nap(5);
		send_all(fd, "x", 1);
		recv_all(fd, &c, 1);
	}
	say("500 answers");
	shutdown(fd, SHUT_WR);
	post(0);
}

PAIR(epoll_two_waiters_level, 0);
SERVER(epoll_two_waiters_level)
{
	two_waiters(fd, 0);
}
CLIENT(epoll_two_waiters_level)
{
	two_waiters_client(fd);
}

PAIR(epoll_two_waiters_edge, 0);
SERVER(epoll_two_waiters_edge)
{
	two_waiters(fd, EPOLLET);
}
CLIENT(epoll_two_waiters_edge)
{
	two_waiters_client(fd);
}

/* One edge wakes one of the waiters, not both. */
static void edge_worker(struct worker *w)
{
	struct epoll_event e = { 0 };
	w->result = epoll_wait((int)w->arg, &e, 1, 300);
}

PAIR(epoll_edge_wakes_one, 0);

SERVER(epoll_edge_wakes_one)
{
	int ep = set_new();
	struct worker w[2];
	memset(w, 0, sizeof(w));
	ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 1);
	for (int i = 0; i < 2; i++) {
		w[i].run = edge_worker;
		w[i].arg = ep;
		worker_start(&w[i]);
		MUST(wait_asleep(w[i].tid));
	}
	post(0);
	for (int i = 0; i < 2; i++)
		worker_join(&w[i]);
	say("woken %ld", w[0].result + w[1].result);
}

CLIENT(epoll_edge_wakes_one)
{
	await(0);
	send_all(fd, "x", 1);
}

/* Another thread changes the set while one waits in it. */
static void ctl_worker(struct worker *w)
{
	int ep = (int)w->arg, fd = w->fd;
	nap(60);
	switch (w->result) {
	case 0: /* adds a connection that has data */
		ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
		break;
	case 1: /* asks for more of one that has it */
		ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN, 2);
		break;
	case 2: /* asks for room */
		ctl(ep, EPOLL_CTL_MOD, fd, EPOLLOUT, 3);
		break;
	case 3: /* takes it out: nobody is woken */
		ctl(ep, EPOLL_CTL_DEL, fd, 0, 0);
		break;
	}
}

PAIR(epoll_ctl_while_waiting, 0);

SERVER(epoll_ctl_while_waiting)
{
	static const char *const what[] = { "add", "mod in", "mod out", "del" };
	int ep = set_new();
	post(0);
	MUST(wait_queued(fd, 1));
	for (int i = 0; i < 4; i++) {
		struct worker w = { .run = ctl_worker, .arg = ep, .fd = fd, .result = i };
		struct epoll_event e = { 0 };
		if (i == 1 || i == 2)
			ctl(ep, EPOLL_CTL_MOD, fd, 0, 9);
		if (i == 3)
			ctl(ep, EPOLL_CTL_MOD, fd, EPOLLPRI, 9);
		worker_start(&w);
		long start = now_ms();
		int n = epoll_wait(ep, &e, 1, i == 3 ? 200 : 3000);
		say("%s: %d data %u in time %d", what[i], n, e.data.u32, now_ms() - start < 1000);
		worker_join(&w);
	}
}

CLIENT(epoll_ctl_while_waiting)
{
	await(0);
	send_all(fd, "x", 1);
}

/* A listener in four sets, and in four processes' sets with EPOLLEXCLUSIVE. */
SOLO(epoll_listener_many_sets, 0)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port), sets[4];
	for (int i = 0; i < 4; i++) {
		sets[i] = set_new();
		R(ctl(sets[i], EPOLL_CTL_ADD, listener, EPOLLIN | (i % 2 ? EPOLLEXCLUSIVE : 0),
		      (unsigned)i));
	}
	R(ctl(sets[1], EPOLL_CTL_MOD, listener, EPOLLIN, 7));
	int fd = connect_to(AF_INET, port);
	for (int i = 0; i < 4; i++) {
		struct epoll_event e = { 0 };
		say("set %d: %d", i, epoll_wait(sets[i], &e, 1, 1000));
	}
	int peer = accept(listener, NULL, NULL);
	for (int i = 0; i < 4; i++) {
		struct epoll_event e = { 0 };
		say("set %d: %d", i, epoll_wait(sets[i], &e, 1, 0));
	}
	warm_up_both(fd, peer);
	/* The connection itself, with EPOLLEXCLUSIVE. */
	R(ctl(sets[0], EPOLL_CTL_ADD, peer, EPOLLIN | EPOLLEXCLUSIVE, 1));
	R(ctl(sets[0], EPOLL_CTL_MOD, peer, EPOLLIN, 1));
	R(ctl(sets[1], EPOLL_CTL_ADD, peer, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1));
	R(ctl(sets[1], EPOLL_CTL_ADD, peer, EPOLLIN | EPOLLEXCLUSIVE | EPOLLRDHUP, 1));
	R(send(fd, "x", 1, 0));
	struct epoll_event e = { 0 };
	R(epoll_wait(sets[0], &e, 1, 1000));
	say_events("events", e.events);
}

/* nginx takes its listener out of the set and puts it back all the time. */
SOLO(epoll_listener_in_and_out, SOME_TCP)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port), ep = set_new(), accepted = 0;
	set_nonblock(listener, true);
	for (int i = 0; i < 300; i++) {
		struct epoll_event e = { 0 };
		MUST(!ctl(ep, EPOLL_CTL_ADD, listener, EPOLLIN | (i % 2 ? EPOLLET : 0), 1));
		int fd = connect_to(AF_INET, port);
		if (epoll_wait(ep, &e, 1, 3000) != 1)
			say("round %d: no event", i);
		int peer = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		accepted += peer >= 0;
		MUST(!ctl(ep, EPOLL_CTL_DEL, listener, 0, 0));
		if (i % 50 == 0)
			warm_up_both(fd, peer);
		close(fd);
		close(peer);
	}
	say("accepted %d", accepted);
}

/* 64 connections, half of them edge triggered: edges are told once, levels every time. */
SOLO(epoll_mixed_modes, 0)
{
	enum { N = 64 };
	static int pairs[N][2];
	static struct epoll_event e[N];
	int count[N] = { 0 }, ep = set_new();
	for (int i = 0; i < N; i++)
		self_pair_cold(pairs[i]);
	warm_up_many(pairs, N);
	for (int i = 0; i < N; i++)
		MUST(!ctl(ep, EPOLL_CTL_ADD, pairs[i][1], EPOLLIN | (i % 2 ? EPOLLET : 0),
			  (unsigned)i));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++) {
			MUST(send(pairs[i][0], "x", 1, 0) == 1);
			MUST(wait_queued(pairs[i][1], round + 1));
		}
		for (int again = 0; again < 3; again++) {
			int n = epoll_wait(ep, e, N, 1000);
			for (int i = 0; i < n; i++)
				count[e[i].data.u32]++;
		}
	}
	int edges = 0, levels = 0;
	for (int i = 0; i < N; i++) {
		if (i % 2)
			edges += count[i] == 3;
		else
			levels += count[i] == 9;
	}
	say("edges right %d levels right %d", edges, levels);
}

/* Connections come and go while another thread waits; numbers are used again at once. */
static void churn_waiter(struct worker *w)
{
	struct epoll_event e[32];
	for (;;) {
		int n = epoll_wait((int)w->arg, e, 32, 3000);
		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			char c = 0;
			int fd = (int)e[i].data.u32;
			if (fd == w->fd)
				return;
			if (recv(fd, &c, 1, MSG_DONTWAIT) == 1 && c == 'x') {
				w->result++;
				post(0);
			}
		}
	}
}

SOLO(epoll_churn, SOME_TCP)
{
	int ep = set_new(), pipes[2], sv[2];
	MUST(!pipe(pipes));
	struct worker w = { .run = churn_waiter, .arg = ep, .fd = pipes[0] };
	ctl(ep, EPOLL_CTL_ADD, pipes[0], EPOLLIN, (unsigned)pipes[0]);
	worker_start(&w);
	for (int i = 0; i < 150; i++) {
		if (i % 10)
			self_pair_cold(sv);
		else
			self_pair(sv);
		bool early = i % 3 == 0;
		if (early)
			send_all(sv[0], "x", 1);
		MUST(!ctl(ep, EPOLL_CTL_ADD, sv[1], EPOLLIN, (unsigned)sv[1]));
		if (!early)
			send_all(sv[0], "x", 1);
		await_n(0, i + 1);
		if (i % 2)
			MUST(!ctl(ep, EPOLL_CTL_DEL, sv[1], 0, 0));
		close(sv[1]);
		close(sv[0]);
	}
	MUST(write(pipes[1], "x", 1) == 1);
	worker_join(&w);
	say("events %ld", w.result);
}
