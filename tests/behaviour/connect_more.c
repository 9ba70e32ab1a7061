/* SPDX-License-Identifier: BSD-2-Clause */

/* Connections: early ends, own addresses, reuse of sockets, names, peers without the library. */

#include <ifaddrs.h>
#include <netinet/tcp.h>

#include "harness.h"

/* A port of 127.0.0.1 where nobody listens; the socket holds it. */
static int closed_port(uint16_t *port)
{
	struct sockaddr_storage a;
	socklen_t size = loopback(&a, AF_INET, 0);
	int fd = tcp_socket(AF_INET, 0);
	MUST(!bind(fd, (struct sockaddr *)&a, size));
	*port = port_of(fd);
	return fd;
}

/* A client that gave up before it was accepted. */
SOLO(connect_reset_before_accept, SOME_TCP)
{
	uint16_t port;
	char c;
	int listener = listen_on(AF_INET, false, &port);
	int fd = connect_to(AF_INET, port);
	linger_reset(fd);
	close(fd);
	nap(30);
	int peer = accept(listener, NULL, NULL);
	YES(peer >= 0);
	R(recv(peer, &c, 1, 0));
	R(recv(peer, &c, 1, 0));
	R(send(peer, "x", 1, MSG_NOSIGNAL));
	struct sockaddr_storage a;
	socklen_t size = sizeof(a);
	R(getpeername(peer, (struct sockaddr *)&a, &size));
	close(peer);
	/* The server goes on. */
	int sv[2] = { connect_to(AF_INET, port), accept(listener, NULL, NULL) };
	warm_up_both(sv[0], sv[1]);
	say("goes on");
}

/* A client that wrote and left before it was accepted. */
SOLO(connect_gone_before_accept, SOME_TCP)
{
	uint16_t port;
	char b[16];
	int listener = listen_on(AF_INET, false, &port);
	int fd = connect_to(AF_INET, port);
	R(send(fd, "hello", 5, 0));
	close(fd);
	int peer = accept(listener, NULL, NULL);
	R(recv(peer, b, sizeof(b), 0));
	R(recv(peer, b, sizeof(b), 0));
	R(send(peer, "x", 1, MSG_NOSIGNAL));
	close(peer);
	int sv[2] = { connect_to(AF_INET, port), accept(listener, NULL, NULL) };
	warm_up_both(sv[0], sv[1]);
}

/* Data sent before accept() is there afterwards. */
SOLO(connect_early_data, SOME_TCP)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	int fd = connect_to(AF_INET, port);
	pattern_send(fd, 1, 0, 50000, 1000);
	nap(20);
	int peer = accept(listener, NULL, NULL);
	say("intact %d", pattern_recv(peer, 1, 0, 50000, 7000));
	warm_up_both(fd, peer);
	pattern_send(fd, 1, 50000, 50000, 1000);
	say("intact %d", pattern_recv(peer, 1, 50000, 50000, 7000));
}

/* One thread that is both ends, on every kind of own address. */
SOLO(connect_self_one_thread, 0)
{
	static const char *const names[] = { "127.0.0.1", "::1", "mapped", "127.0.0.2", "own" };
	for (int i = 0; i < 5; i++) {
		int family = i == 1 || i == 2 ? AF_INET6 : AF_INET;
		uint16_t port;
		struct sockaddr_storage a;
		int listener = listen_on(family, i > 1, &port);
		socklen_t size = loopback(&a, i == 1 ? AF_INET6 : AF_INET, port);
		struct sockaddr_in *four = (struct sockaddr_in *)&a;
		if (i == 3)
			four->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
		struct ifaddrs *all = NULL;
		if (i == 4 && !getifaddrs(&all)) {
			for (struct ifaddrs *p = all; p; p = p->ifa_next)
				if (p->ifa_addr && p->ifa_addr->sa_family == AF_INET)
					four->sin_addr =
						((struct sockaddr_in *)p->ifa_addr)->sin_addr;
			freeifaddrs(all);
		}
		int fd = tcp_socket(i == 1 ? AF_INET6 : AF_INET, SOCK_NONBLOCK);
		if (connect(fd, (struct sockaddr *)&a, size) < 0)
			MUST(errno == EINPROGRESS);
		int peer = accept(listener, NULL, NULL);
		MUST(wait_events(fd, POLLOUT, 5000) == POLLOUT);
		set_nonblock(fd, false);
		warm_up_both(fd, peer);
		bool ok = true;
		for (size_t n = 0; n < 200 && ok; n++) {
			pattern_send(fd, 1, n * 100, 100, 100);
			ok = pattern_recv(peer, 1, n * 100, 100, 100);
			pattern_send(peer, 2, n * 100, 100, 100);
			ok = ok && pattern_recv(fd, 2, n * 100, 100, 100);
		}
		say("%s: intact %d", names[i], ok);
		close(fd);
		close(peer);
		close(listener);
	}
}

/* TCP lets a socket connect to itself: one socket, both ends. */
SOLO(connect_to_itself, MAY_BE_TCP)
{
	uint16_t port;
	int fd = closed_port(&port);
	char b[16] = "";
	R(try_connect(fd, AF_INET, port));
	for (int i = 0; i < 50; i++) {
		MUST(send(fd, "ping", 4, 0) == 4);
		MUST(recv(fd, b, 16, 0) == 4);
	}
	say("got %.4s", b);
	pattern_send(fd, 1, 0, 10000, 10000);
	say("intact %d", pattern_recv(fd, 1, 0, 10000, 3000));
	R(shutdown(fd, SHUT_WR));
	R(recv(fd, b, 16, 0));
}

/* connect(AF_UNSPEC) dissolves a connection; the socket can be used again. */
PAIR(connect_unspec, SOME_TCP);

SERVER(connect_unspec)
{
	char b[16];
	shared_set(0, port_of(pair_listener));
	post(0);
	await(1);
	say_events("poll", wait_events(fd, POLLIN, 5000));
	R(recv(fd, b, sizeof(b), 0));
	int again = accept(pair_listener, NULL, NULL);
	warm_up_server(again);
	R(recv(again, b, sizeof(b), 0));
	close(again);
}

CLIENT(connect_unspec)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	char b[16];
	await(0);
	R(connect(fd, &none, sizeof(none)));
	post(1);
	R(recv(fd, b, sizeof(b), MSG_DONTWAIT));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	R(try_connect(fd, AF_INET, (uint16_t)shared_get(0)));
	warm_up_client(fd);
	R(send(fd, "again", 5, 0));
}

PAIR(connect_names_through_life, 0);

static void say_names(const char *when, int fd)
{
	struct sockaddr_storage a;
	socklen_t size = sizeof(a);
	int one = getsockname(fd, (struct sockaddr *)&a, &size);
	size = sizeof(a);
	errno = 0;
	int two = getpeername(fd, (struct sockaddr *)&a, &size);
	say("%s: getsockname %d getpeername %d %s", when, one, two, two ? errno_name(errno) : "");
}

SERVER(connect_names_through_life)
{
	char c;
	say_names("at first", fd);
	post(0);
	R(recv(fd, &c, 1, 0));
	say_names("after FIN", fd);
	await(3);
	shutdown(fd, SHUT_WR);
	post(1);
	await(2);
	say_names("when all is over", fd);
}

CLIENT(connect_names_through_life)
{
	char c;
	say_names("at first", fd);
	await(0);
	shutdown(fd, SHUT_WR);
	say_names("after own FIN", fd);
	post(3);
	await(1);
	R(recv(fd, &c, 1, 0));
	nap(20);
	say_names("when all is over", fd);
	post(2);
}

PAIR(connect_plain_server, PLAIN_SERVER | MUST_BE_TCP);

SERVER(connect_plain_server)
{
	say("intact %d", pattern_recv(fd, 1, 0, 500000, 10000));
	pattern_send(fd, 2, 0, 500000, 10000);
}

CLIENT(connect_plain_server)
{
	pattern_send(fd, 1, 0, 500000, 500);
	say("intact %d", pattern_recv(fd, 2, 0, 500000, 500));
}

PAIR(connect_plain_client, PLAIN_CLIENT | MUST_BE_TCP);

SERVER(connect_plain_client)
{
	say("intact %d", pattern_recv(fd, 1, 0, 500000, 500));
	pattern_send(fd, 2, 0, 500000, 500);
}

CLIENT(connect_plain_client)
{
	pattern_send(fd, 1, 0, 500000, 10000);
	say("intact %d", pattern_recv(fd, 2, 0, 500000, 10000));
}
