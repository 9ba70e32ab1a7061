/* SPDX-License-Identifier: BSD-2-Clause */

/* Who gets a turn: plain and accelerated descriptors in one set, listeners, numbers used again. */

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "epoll_set.h"
#include "harness.h"

/*
 * Pitfalls 5 and 6. Level-triggered entries that are always ready, plain and accelerated, in one set, asked
 * for one event at a time: everyone is served over and over, and nobody waits for more turns than a few rounds
 * of all of them. Time plays no part.
 */
SOLO(epoll_fair_turns, 0)
{
	enum { FAST = 8, PLAIN = 4, ALL = FAST + PLAIN, TURNS = 2000, PATIENCE = 8 * ALL };
	static int pairs[FAST][2];
	int ep = set_new(), last[ALL] = { 0 }, turns[ALL] = { 0 }, longest = 0, pipes[2];
	int event = eventfd(1, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec soon = { .it_value = { .tv_nsec = 1 } };
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_storage a;
	socklen_t size = loopback(&a, AF_INET, 0);

	for (int i = 0; i < FAST; i++)
		self_pair_cold(pairs[i]);
	warm_up_many(pairs, FAST);
	for (int i = 0; i < FAST; i++) {
		MUST(send(pairs[i][0], "x", 1, 0) == 1 && wait_queued(pairs[i][1], 1));
		MUST(!ctl(ep, EPOLL_CTL_ADD, pairs[i][1], EPOLLIN, (unsigned)i));
	}
	MUST(!pipe(pipes) && write(pipes[1], "x", 1) == 1);
	MUST(!timerfd_settime(timer, 0, &soon, NULL));
	MUST(!bind(udp, (struct sockaddr *)&a, size) &&
	     !getsockname(udp, (struct sockaddr *)&a, &size));
	MUST(sendto(udp, "x", 1, 0, (struct sockaddr *)&a, size) == 1);
	const int plain[PLAIN] = { event, timer, pipes[0], udp };
	for (int i = 0; i < PLAIN; i++)
		MUST(!ctl(ep, EPOLL_CTL_ADD, plain[i], EPOLLIN, (unsigned)(FAST + i)));
	for (int turn = 1; turn <= TURNS; turn++) {
		struct epoll_event e;
		MUST(epoll_wait(ep, &e, 1, 1000) == 1);
		turns[e.data.u32]++;
		last[e.data.u32] = turn;
		for (int i = 0; i < ALL; i++)
			if (turn - last[i] > longest)
				longest = turn - last[i];
	}
	int served = 0;
	for (int i = 0; i < ALL; i++)
		served += turns[i] > TURNS / ALL / 8;
	say("served %d, patience enough %d", served, longest <= PATIENCE);
}

/* Pitfall 2: in two sets, and under two numbers, before there is even an address. */
SOLO(epoll_before_bind, 0)
{
	struct sockaddr_storage a;
	socklen_t size = loopback(&a, AF_INET, 0);
	int listener = tcp_socket(AF_INET, 0), twin = dup(listener), one = set_new(),
	    two = set_new();
	R(ctl(one, EPOLL_CTL_ADD, listener, EPOLLIN, 1));
	R(ctl(two, EPOLL_CTL_ADD, twin, EPOLLIN | EPOLLET, 2));
	say_wait("no address yet", one, 0);
	MUST(!bind(listener, (struct sockaddr *)&a, size));
	say_wait("bound", one, 0);
	MUST(!listen(listener, 5));
	for (int i = 0; i < 3; i++) {
		int fd = connect_to(AF_INET, port_of(listener));
		say_wait("one", one, 1000);
		say_wait("two", two, 1000);
		int peer = accept(i % 2 ? twin : listener, NULL, NULL);
		say_wait("accepted", one, 0);
		warm_up_both(fd, peer);
		close(fd);
		close(peer);
	}
	R(close(listener));
	int fd = connect_to(AF_INET, port_of(twin));
	say_wait("one, by the other number", one, 1000);
	close(fd);
}

/* Pitfall 18: closed by a raw system call; the set, and the number, go on with something else. */
SOLO(epoll_raw_close, SOME_TCP)
{
	int sv[2], pipes[2], ep = set_new();
	char c;
	self_pair(sv);
	MUST(dup(0) >= 0); /* the listener's number is free again, and lower */
	int number = sv[0] < sv[1] ? sv[0] : sv[1], other = sv[0] < sv[1] ? sv[1] : sv[0];
	R(ctl(ep, EPOLL_CTL_ADD, number, EPOLLIN, 1));
	say_wait("open", ep, 0);
	R(syscall(SYS_close, number));
	MUST(!pipe(pipes));
	YES(pipes[0] == number);
	R(ctl(ep, EPOLL_CTL_MOD, pipes[0], EPOLLIN, 2));
	R(ctl(ep, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 2));
	R(ctl(ep, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 2));
	say_wait("empty", ep, 20);
	R(write(pipes[1], "x", 1));
	say_wait("pipe", ep, 1000);
	R(read(pipes[0], &c, 1));
	say_wait("empty", ep, 20);
	R(recv(other, &c, 1, 0));
	R(ctl(ep, EPOLL_CTL_DEL, pipes[0], 0, 0));
	R(ctl(ep, EPOLL_CTL_DEL, pipes[0], 0, 0));
}

/* Pitfall 19: a group of listeners, each with a thread and a set of its own. None is left waiting. */
enum { MEMBERS = 4, CALLS = 48 };

static void member(struct worker *w)
{
	int ep = set_new();
	MUST(!ctl(ep, EPOLL_CTL_ADD, w->fd, EPOLLIN, 1));
	for (;;) {
		struct epoll_event e;
		char c;
		MUST(epoll_wait(ep, &e, 1, -1) == 1);
		int fd = accept4(w->fd, NULL, NULL, 0);
		MUST(fd >= 0);
		if (recv(fd, &c, 1, 0) != 1 || c == 'q') {
			close(fd);
			close(ep);
			return;
		}
		send_all(fd, &c, 1);
		warm_up_server(fd);
		w->result++;
		close(fd);
	}
}

ROLE(epoll_reuseport_group, clients)
{
	actor_use(2, "clients");
	int late = 0;
	for (int i = 0; i < CALLS; i++) {
		char c = 'a';
		long start = now_ms();
		int fd = connect_to(AF_INET, (uint16_t)shared_get(0));
		send_all(fd, &c, 1);
		recv_all(fd, &c, 1);
		late += now_ms() - start > 1000;
		if (i % 6 == 0)
			warm_up_client(fd);
		else
			send_all(fd, "q", 1), recv_all(fd, &c, 1);
		close(fd);
	}
	say("late %d", late);
}

SOLO(epoll_reuseport_group, SOME_TCP)
{
	struct worker w[MEMBERS];
	struct sockaddr_storage a;
	socklen_t size = loopback(&a, AF_INET, 0);
	int on = 1;
	memset(w, 0, sizeof(w));
	for (int i = 0; i < MEMBERS; i++) {
		int fd = tcp_socket(AF_INET, 0);
		MUST(!setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)));
		MUST(!bind(fd, (struct sockaddr *)&a, size) && !listen(fd, 64));
		size = loopback(&a, AF_INET, port_of(fd));
		w[i] = (struct worker){ .run = member, .fd = fd };
	}
	shared_set(0, port_of(w[0].fd));
	for (int i = 0; i < MEMBERS; i++)
		worker_start(&w[i]);
	say_status("clients", reap(spawn_role("clients", 0)));
	long served = 0;
	/* A listener that is closed leaves the group: the call goes to another one. */
	for (int left = MEMBERS; left; left--) {
		int fd = connect_to(AF_INET, (uint16_t)shared_get(0));
		char c;
		send_all(fd, "q", 1);
		R(recv(fd, &c, 1, 0));
		close(fd);
		for (bool found = false; !found; nap(1))
			for (int i = 0; i < MEMBERS && !found; i++)
				if (w[i].fd >= 0 && !pthread_tryjoin_np(w[i].thread, NULL)) {
					served += w[i].result;
					close(w[i].fd);
					w[i].fd = -1;
					found = true;
				}
	}
	say("served %ld", served);
}
