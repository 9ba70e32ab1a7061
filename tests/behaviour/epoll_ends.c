/* SPDX-License-Identifier: BSD-2-Clause */

/* Epoll masks at the ends of connections, when there is room again, and around connect(). */

#include "epoll_set.h"
#include "harness.h"

static void masks_at_end(int fd, unsigned mode)
{
	int ep = set_new(), quiet = set_new();
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | mode, 1));
	R(ctl(quiet, EPOLL_CTL_ADD, fd, mode, 2));
	say_wait("open", ep, 0);
	say_wait("open, quiet", quiet, 0);
	post(0);
	await(1);
	MUST(wait_events(fd, POLLRDHUP, 5000));
	say_wait("after the peer", ep, 1000);
	say_wait("after the peer, quiet", quiet, 20);
	shutdown(fd, SHUT_WR);
	nap(20);
	say_wait("after both", ep, mode ? 20 : 0);
	say_wait("after both, quiet", quiet, mode ? 20 : 0);
}

#define MASKS(name, mode, action)                                                                  \
	PAIR(name, 0);                                                                             \
	SERVER(name)                                                                               \
	{                                                                                          \
		masks_at_end(fd, mode);                                                            \
	}                                                                                          \
	CLIENT(name)                                                                               \
	{                                                                                          \
		await(0);                                                                          \
		action;                                                                            \
		post(1);                                                                           \
	}

static void reset_now(int fd)
{
	linger_reset(fd);
	close(fd);
}

MASKS(epoll_fin_level, 0, shutdown(fd, SHUT_WR))
MASKS(epoll_fin_edge, EPOLLET, shutdown(fd, SHUT_WR))
MASKS(epoll_close_level, 0, close(fd))
MASKS(epoll_reset_level, 0, reset_now(fd))
MASKS(epoll_reset_edge, EPOLLET, reset_now(fd))

/* What own shutdowns show. */
PAIR(epoll_own_shutdown, 0);

SERVER(epoll_own_shutdown)
{
	int ep = set_new();
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, 1));
	say_wait("open", ep, 20);
	R(shutdown(fd, SHUT_RD));
	say_wait("read side", ep, 1000);
	R(shutdown(fd, SHUT_WR));
	nap(20);
	say_wait("both sides", ep, 1000);
}

CLIENT(epoll_own_shutdown)
{
	char c;
	R(recv(fd, &c, 1, 0));
}

PAIR(epoll_out_when_drained, SMALL_BUF);

SERVER(epoll_out_when_drained)
{
	char b[65536];
	for (int k = 0; k < 2; k++) {
		await(k);
		nap(30);
		while (recv(fd, b, sizeof(b), MSG_DONTWAIT) > 0 || wait_events(fd, POLLIN, 60))
			;
	}
	post(2);
}

static void fill_up(int fd)
{
	char b[4096] = "";
	while (send(fd, b, sizeof(b), MSG_DONTWAIT) > 0 || wait_events(fd, POLLOUT, 50))
		;
	while (send(fd, b, 1, MSG_DONTWAIT) > 0)
		;
}

CLIENT(epoll_out_when_drained)
{
	int ep = set_new();
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLOUT, 1));
	say_wait("at first", ep, 0);
	fill_up(fd);
	say_wait("full", ep, 20);
	post(0);
	say_wait("level", ep, 5000);
	nap(200);
	R(ctl(ep, EPOLL_CTL_MOD, fd, EPOLLOUT | EPOLLET, 2));
	say_wait("edge", ep, 0);
	say_wait("no edge", ep, 20);
	fill_up(fd);
	post(1);
	say_wait("edge", ep, 5000);
	YES(send(fd, "abc", 3, MSG_DONTWAIT) == 3);
	await(2);
}

/* Registered long before there is a connection; the peer is accelerated, or not. */
static void before_connect(void)
{
	uint16_t port = (uint16_t)shared_get(0);
	struct sockaddr_storage a;
	socklen_t size = loopback(&a, AF_INET, port);
	int lt = set_new(), et = set_new();
	int fd = tcp_socket(AF_INET, SOCK_NONBLOCK), twin = dup(fd);
	R(ctl(lt, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, 1));
	R(ctl(et, EPOLL_CTL_ADD, twin, EPOLLIN | EPOLLET, 2));
	say_wait("level", lt, 0);
	MUST(connect(fd, (struct sockaddr *)&a, size) == 0 || errno == EINPROGRESS);
	MUST(wait_events(fd, POLLOUT, 5000) == POLLOUT);
	say_wait("level", lt, 0);
	say_wait("edge", et, 0);
	warm_up_client(fd);
	/* Rounds of the warm-up left their edges. */
	epoll_wait(et, (struct epoll_event[1]){ { 0 } }, 1, 0);
	char c;
	for (int i = 0; i < 3; i++) {
		post(i);
		long start = now_ms();
		say_wait("edge", et, 5000);
		YES(now_ms() - start < 1000);
		say_wait("level", lt, 5000);
		MUST(recv(fd, &c, 1, 0) == 1);
		say_wait("level", lt, 20);
	}
	post(3);
	say_wait("level", lt, 5000);
	close(twin);
	close(fd);
}

static void before_connect_server(void)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	shared_set(0, port);
	post(10);
	int fd = accept(listener, NULL, NULL);
	warm_up_server(fd);
	for (int i = 0; i < 3; i++) {
		await(i);
		nap(5);
		send_all(fd, "x", 1);
	}
	await(3);
	close(fd);
}

ROLE(epoll_before_connect, peer)
{
	before_connect_server();
}

SOLO(epoll_before_connect, 0)
{
	pid_t child = spawn_role("peer", 0);
	await(10);
	before_connect();
	say_status("peer", reap(child));
}

ROLE(epoll_before_connect_plain_peer, peer)
{
	before_connect_server();
}

SOLO(epoll_before_connect_plain_peer, MUST_BE_TCP)
{
	pid_t child = spawn_role("peer", SPAWN_PLAIN);
	await(10);
	before_connect();
	say_status("peer", reap(child));
}

/* Registered while data flows and the carrier changes. */
PAIR(epoll_cold, COLD);

SERVER(epoll_cold)
{
	int ep = set_new(), wrong = 0;
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 1));
	for (int i = 0; i < 3000; i++) {
		struct epoll_event e = { 0 };
		char b[8];
		if (epoll_wait(ep, &e, 1, 5000) != 1 || e.events != EPOLLIN || e.data.u64 != 1)
			wrong++;
		if (recv(fd, b, sizeof(b), MSG_DONTWAIT) != 5)
			wrong++;
		send_all(fd, b, 5);
	}
	say("wrong %d", wrong);
}

CLIENT(epoll_cold)
{
	int ep = set_new(), wrong = 0;
	char b[5] = "12345";
	for (int i = 0; i < 3000; i++) {
		struct epoll_event e = { 0 };
		if (i % 100 == 0)
			MUST(!ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 2));
		send_all(fd, b, 5);
		if (epoll_wait(ep, &e, 1, 5000) != 1 || e.events != EPOLLIN || e.data.u64 != 2)
			wrong++;
		recv_all(fd, b, 5);
		if (i % 100 == 99)
			MUST(!ctl(ep, EPOLL_CTL_DEL, fd, 0, 0));
	}
	say("wrong %d", wrong);
}

/* Data that was there before ADD. */
PAIR(epoll_data_before_add, 0);

SERVER(epoll_data_before_add)
{
	static const unsigned modes[] = { 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT };
	char b[8];
	for (int i = 0; i < 4; i++) {
		int ep = set_new();
		post(i);
		MUST(wait_queued(fd, 3));
		R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | modes[i], 1));
		say_wait("there", ep, 1000);
		say_wait("again", ep, 0);
		R(recv(fd, b, sizeof(b), 0));
		close(ep);
	}
}

CLIENT(epoll_data_before_add)
{
	for (int i = 0; i < 4; i++) {
		await(i);
		send_all(fd, "abc", 3);
	}
}

/* A closed number used again for a pipe: the set knows nothing of the old socket. */
PAIR(epoll_number_reused, 0);

SERVER(epoll_number_reused)
{
	int ep = set_new(), pipes[2];
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(close(fd));
	MUST(!pipe(pipes));
	int other = pipes[0] == fd ? pipes[1] : pipes[0];
	YES(pipes[0] == fd);
	say_wait("nothing", ep, 20);
	R(ctl(ep, EPOLL_CTL_MOD, pipes[0], EPOLLIN, 2));
	R(ctl(ep, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 2));
	R(write(other, "x", 1));
	say_wait("pipe", ep, 1000);
	R(ctl(ep, EPOLL_CTL_DEL, pipes[0], 0, 0));
}

CLIENT(epoll_number_reused)
{
	char c;
	R(recv(fd, &c, 1, 0));
}

/* The set's own descriptor can be dup'ed, closed and inherited. */
PAIR(epoll_set_dup, 0);

SERVER(epoll_set_dup)
{
	int ep = set_new(), twin = dup(ep);
	char b[8];
	R(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	R(close(ep));
	post(0);
	say_wait("through the twin", twin, 5000);
	R(recv(fd, b, sizeof(b), 0));
	int high = fcntl(twin, F_DUPFD_CLOEXEC, 100);
	R(close(twin));
	post(1);
	say_wait("through a third", high, 5000);
	R(ctl(high, EPOLL_CTL_DEL, fd, 0, 0));
	say_wait("through a third", high, 20);
}

CLIENT(epoll_set_dup)
{
	for (int k = 0; k < 2; k++) {
		await(k);
		send_all(fd, "a", 1);
	}
}
