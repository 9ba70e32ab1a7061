/* SPDX-License-Identifier: BSD-2-Clause */

/* fork(): who holds a connection may change, the connection does not. */

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "harness.h"

enum { SIZE = 1 << 20 };

/* The classic server: accept, fork, the parent closes its copy. */
ROLE(fork_accept_then_fork, clients)
{
	actor_use(2, "clients");
	for (int i = 0; i < 10; i++) {
		int fd = connect_to(AF_INET, (uint16_t)shared_get(0));
		warm_up_client(fd);
		say("echo intact %d", echo_check(fd, (uint32_t)i));
		close(fd);
	}
}

SOLO(fork_accept_then_fork, 0)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port), status = 0;
	shared_set(0, port);
	pid_t clients = spawn_role("clients", 0);
	for (int i = 0; i < 10; i++) {
		int fd = accept(listener, NULL, NULL);
		pid_t child = fork();
		if (!child) {
			close(listener);
			warm_up_server(fd);
			echo_until_end(fd);
			exit(0);
		}
		close(fd);
		status |= reap(child);
	}
	say_status("children", status);
	say_status("clients", reap(clients));
}

/* The same, but the parent has talked to the client before. */
PAIR(fork_after_talk, 0);

SERVER(fork_after_talk)
{
	pid_t child = fork();
	if (!child) {
		echo_until_end(fd);
		exit(0);
	}
	close(fd);
	say_status("child", reap(child));
}

CLIENT(fork_after_talk)
{
	say("echo intact %d", echo_check(fd, 1));
	close(fd);
}

/* One reads, the other one writes. */
PAIR(fork_split_directions, 0);

SERVER(fork_split_directions)
{
	pid_t child = fork();
	if (!child) {
		pattern_send(fd, 2, 0, 4 * SIZE, 50000);
		exit(0);
	}
	say("intact %d", pattern_recv(fd, 1, 0, 4 * SIZE, 50000));
	say_status("child", reap(child));
	send_all(fd, "end", 3);
}

CLIENT(fork_split_directions)
{
	char b[4] = "";
	pid_t child = fork();
	if (!child) {
		pattern_send(fd, 1, 0, 4 * SIZE, 30000);
		exit(0);
	}
	say("intact %d", pattern_recv(fd, 2, 0, 4 * SIZE, 30000));
	say_status("child", reap(child));
	recv_all(fd, b, 3);
	say("got %s", b);
}

/* Parent and child take turns at both directions. */
PAIR(fork_taking_turns, 0);

SERVER(fork_taking_turns)
{
	bool ok = true;
	for (size_t i = 0; i < 40; i++) {
		ok = ok && pattern_recv(fd, 1, i * 1000, 1000, 1000);
		pattern_send(fd, 2, i * 1000, 1000, 1000);
	}
	say("intact %d", ok);
}

CLIENT(fork_taking_turns)
{
	/* Both know the state of the stream by counting. */
	pid_t child = fork();
	bool ok = true;
	for (size_t i = 0; i < 40; i++) {
		if (i % 2 == !child) {
			await((int)(i % 60));
			continue;
		}
		if (i)
			await((int)(i - 1) % 60);
		pattern_send(fd, 1, i * 1000, 1000, 1000);
		ok = ok && pattern_recv(fd, 2, i * 1000, 1000, 1000);
		post((int)i);
	}
	if (!child)
		exit(!ok);
	say("intact %d", ok);
	say_status("child", reap(child));
}

/* A child that only goes away, by each way out, is not noticed by the peer. */
PAIR(fork_child_leaves, 0);

SERVER(fork_child_leaves)
{
	char b[8] = "";
	for (int way = 0; way < 4; way++) {
		recv_all(fd, b, 5);
		say_events("poll", wait_events(fd, POLLIN | POLLRDHUP, 50));
		send_all(fd, "there", 5);
	}
}

CLIENT(fork_child_leaves)
{
	char b[8] = "";
	for (int way = 0; way < 4; way++) {
		pid_t child = fork();
		if (!child) {
			if (way == 0)
				exit(1);
			if (way == 1)
				_exit(2);
			if (way == 2) {
				close(fd);
				exit(3);
			}
			kill(getpid(), SIGKILL);
		}
		say_status("child", reap(child));
		send_all(fd, "hello", 5);
		recv_all(fd, b, 5);
		say("got %s", b);
	}
}

/* A parent that goes away leaves the connection to its child. */
PAIR(fork_parent_leaves, 0);

SERVER(fork_parent_leaves)
{
	say("echo intact %d", echo_check(fd, 1));
	shutdown(fd, SHUT_WR);
}

CLIENT(fork_parent_leaves)
{
	pid_t parent = getpid();
	if (!fork()) {
		/* Not before the parent is really gone. */
		while (getppid() == parent)
			nap(1);
		actor_use(3, "grown child");
		echo_until_end(fd);
		say("done");
		exit(0);
	}
	exit(0);
}

/* Bytes in flight while forking: order and count hold. */
PAIR(fork_in_flight, COLD | MAY_BE_TCP);

SERVER(fork_in_flight)
{
	bool ok = true;
	for (size_t i = 0; i < 20 && ok; i++)
		ok = pattern_recv(fd, 1, i * 100000, 100000, 30000);
	say("intact %d", ok);
}

CLIENT(fork_in_flight)
{
	int status = 0;
	for (size_t i = 0; i < 20; i++) {
		if (i % 2) {
			pid_t child = fork();
			if (!child) {
				pattern_send(fd, 1, i * 100000, 100000, 7000);
				exit(0);
			}
			status |= reap(child);
		} else {
			pattern_send(fd, 1, i * 100000, 100000, 7000);
		}
	}
	say_status("children", status);
}

/* Half of what is queued is read by the parent, half by the child. */
PAIR(fork_queued_data, 0);

SERVER(fork_queued_data)
{
	MUST(wait_queued(fd, 60000));
	say("parent intact %d", pattern_recv(fd, 1, 0, 20000, 20000));
	pid_t child = fork();
	if (!child)
		exit(!pattern_recv(fd, 1, 20000, 20000, 20000));
	say_status("child", reap(child));
	say("parent intact %d", pattern_recv(fd, 1, 40000, 20000, 20000));
}

CLIENT(fork_queued_data)
{
	pattern_send(fd, 1, 0, 60000, 60000);
}

PAIR(fork_nonblock_state, NONBLOCK);

SERVER(fork_nonblock_state)
{
	char c;
	pid_t child = fork();
	if (!child) {
		actor_use(3, "child");
		R(fcntl(fd, F_GETFL) & O_NONBLOCK);
		R(recv(fd, &c, 1, 0));
		/* Shared by all who hold the socket. */
		set_nonblock(fd, false);
		exit(0);
	}
	say_status("child", reap(child));
	R(fcntl(fd, F_GETFL) & O_NONBLOCK);
	post(0);
	R(recv(fd, &c, 1, 0));
}

CLIENT(fork_nonblock_state)
{
	await(0);
	nap(30);
	send_all(fd, "x", 1);
}

/* Threads that talk while the process forks; the children make connections of their own. */
static void chatter(struct worker *w)
{
	int sv[2];
	self_pair(sv);
	bool ok = true;
	for (size_t i = 0; !__atomic_load_n(&w->arg, __ATOMIC_RELAXED); i++) {
		pattern_send(sv[0], 1, i * 1000, 1000, 1000);
		ok = ok && pattern_recv(sv[1], 1, i * 1000, 1000, 1000);
	}
	w->result = ok;
}

SOLO(fork_from_threads, SOME_TCP)
{
	struct worker w[3];
	int failed = 0;
	memset(w, 0, sizeof(w));
	for (int i = 0; i < 3; i++) {
		w[i].run = chatter;
		worker_start(&w[i]);
	}
	for (int i = 0; i < 60; i++) {
		pid_t child = fork();
		if (!child) {
			int sv[2];
			self_pair_cold(sv);
			pattern_send(sv[0], 1, 0, 10000, 500);
			exit(!pattern_recv(sv[1], 1, 0, 10000, 500));
		}
		failed += reap(child) != 0;
	}
	say("children that failed %d", failed);
	for (int i = 0; i < 3; i++) {
		__atomic_store_n(&w[i].arg, 1, __ATOMIC_RELAXED);
		worker_join(&w[i]);
		say("intact %ld", w[i].result);
	}
}

/* A set made before the fork is one set for both. */
PAIR(fork_shares_epoll, 0);

SERVER(fork_shares_epoll)
{
	int ep = epoll_create1(0);
	struct epoll_event e = { .events = EPOLLIN, .data.u32 = 5 }, out = { 0 };
	R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	pid_t child = fork();
	if (!child) {
		char c;
		actor_use(3, "child");
		post(0);
		R(epoll_wait(ep, &out, 1, 5000));
		say("data %u", out.data.u32);
		R(recv(fd, &c, 1, 0));
		R(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
		exit(0);
	}
	say_status("child", reap(child));
	post(1);
	MUST(wait_queued(fd, 1));
	R(epoll_wait(ep, &out, 1, 50));
	R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	R(epoll_wait(ep, &out, 1, 1000));
}

CLIENT(fork_shares_epoll)
{
	for (int k = 0; k < 2; k++) {
		await(k);
		nap(20);
		send_all(fd, "x", 1);
	}
}

/* Signals of children reach the application, and only its own children's. */
static void child_gone(int signo)
{
	(void)signo;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		signals_seen++;
}

PAIR(fork_sigchld, 0);

SERVER(fork_sigchld)
{
	struct sigaction act = { .sa_handler = child_gone, .sa_flags = SA_RESTART }, old;
	R(sigaction(SIGCHLD, &act, &old));
	YES(old.sa_handler == SIG_DFL);
	R(sigaction(SIGCHLD, &act, &old));
	YES(old.sa_handler == child_gone);
	for (int i = 0; i < 100; i++)
		if (!fork())
			_exit(0);
	long end = now_ms() + 10000;
	while (signals_seen < 100 && now_ms() < end)
		nap(1);
	say("children %d", (int)signals_seen);
	R(waitpid(-1, NULL, 0));
	send_all(fd, "x", 1);
}

CLIENT(fork_sigchld)
{
	char c;
	R(recv(fd, &c, 1, 0));
}

/* Raw clone calls that do not pass through fork(). */
PAIR(fork_raw_clone, 0);

SERVER(fork_raw_clone)
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!child) {
		/* Only looks, and leaves. */
		syscall(SYS_exit_group, 7);
	}
	say_status("child", reap(child));
	say("intact %d", pattern_recv(fd, 1, 0, SIZE, 50000));
}

CLIENT(fork_raw_clone)
{
	pattern_send(fd, 1, 0, SIZE, 50000);
}
