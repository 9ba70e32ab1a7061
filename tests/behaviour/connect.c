/* SPDX-License-Identifier: BSD-2-Clause */

/* Making connections: connect, accept, listen, names. */

#include <ifaddrs.h>
#include <netinet/tcp.h>

#include "harness.h"

static int so_error(int fd)
{
	int err = -1;
	socklen_t size = sizeof(err);
	MUST(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size));
	return err;
}

static void say_error(int fd)
{
	int err = so_error(fd);
	say("SO_ERROR %s", err ? errno_name(err) : "0");
}

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

SOLO(connect_nonblocking, 0)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	int fd = tcp_socket(AF_INET, SOCK_NONBLOCK);
	R(try_connect(fd, AF_INET, port));
	say_events("poll", wait_events(fd, POLLOUT, 5000));
	say_error(fd);
	R(try_connect(fd, AF_INET, port));
	R(try_connect(fd, AF_INET, port));
	int peer = accept(listener, NULL, NULL);
	warm_up_both(fd, peer);
	R(try_connect(fd, AF_INET, port));
	say("O_NONBLOCK %d %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK),
	    !!(fcntl(peer, F_GETFL) & O_NONBLOCK));
	R(send(fd, "abc", 3, 0));
	char b[8];
	R(recv(peer, b, sizeof(b), 0));
	R(recv(fd, b, sizeof(b), 0));
}

/* Nothing is done for the connection after connect(): it stands all the same. */
SOLO(connect_nonblocking_then_sleep, SOME_TCP)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	int fd = tcp_socket(AF_INET, SOCK_NONBLOCK);
	R(try_connect(fd, AF_INET, port));
	nap(300);
	say_error(fd);
	say_events("poll", wait_events(fd, POLLIN | POLLOUT, 0));
	int peer = accept(listener, NULL, NULL);
	warm_up_both(fd, peer);
}

SOLO(connect_refused, MUST_BE_TCP)
{
	uint16_t port;
	int holder = closed_port(&port);
	int fd = tcp_socket(AF_INET, 0);
	R(try_connect(fd, AF_INET, port));
	say_error(fd);
	say_events("poll", wait_events(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	char c;
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	R(recv(fd, &c, 1, 0));
	close(fd);

	fd = tcp_socket(AF_INET, SOCK_NONBLOCK);
	R(try_connect(fd, AF_INET, port));
	say_events("poll", wait_events(fd, POLLOUT, 5000));
	say_error(fd);
	say_error(fd);
	close(fd);
	close(holder);
}

/* A socket whose first connect() failed is as good as new. */
SOLO(connect_again_after_refused, 0)
{
	uint16_t port, closed;
	int holder = closed_port(&closed);
	int listener = listen_on(AF_INET, false, &port);
	int fd = tcp_socket(AF_INET, 0);
	R(try_connect(fd, AF_INET, closed));
	R(try_connect(fd, AF_INET, port));
	int peer = accept(listener, NULL, NULL);
	warm_up_both(fd, peer);
	pattern_send(fd, 1, 0, 10000, 10000);
	say("intact %d", pattern_recv(peer, 1, 0, 10000, 10000));
	close(holder);
}

/* A listener whose queue is full answers nobody: the connection stays in progress. */
SOLO(connect_in_progress, MUST_BE_TCP)
{
	struct sockaddr_storage a;
	socklen_t size = loopback(&a, AF_INET, 0);
	int listener = tcp_socket(AF_INET, 0);
	MUST(!bind(listener, (struct sockaddr *)&a, size));
	MUST(!listen(listener, 0));
	uint16_t port = port_of(listener);
	int fd = -1;
	for (int i = 0; i < 4; i++) {
		fd = tcp_socket(AF_INET, SOCK_NONBLOCK);
		try_connect(fd, AF_INET, port);
		if (!wait_events(fd, POLLOUT, 50))
			break;
	}
	R(try_connect(fd, AF_INET, port));
	say_events("poll", wait_events(fd, POLLIN | POLLOUT, 0));
	char c;
	R(recv(fd, &c, 1, 0));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	R(getpeername(fd, (struct sockaddr *)&a, &size));
	say_error(fd);
}

SOLO(connect_unconnected_calls, MUST_BE_TCP)
{
	char c;
	struct sockaddr_storage a;
	socklen_t size = sizeof(a);
	int fd = tcp_socket(AF_INET, 0);
	on_signal(SIGPIPE, 0);
	R(recv(fd, &c, 1, 0));
	R(read(fd, &c, 1));
	R(send(fd, "x", 1, 0));
	say("signals %d", (int)signals_seen);
	R(write(fd, "x", 1));
	say("signals %d", (int)signals_seen);
	R(shutdown(fd, SHUT_WR));
	R(getpeername(fd, (struct sockaddr *)&a, &size));
	R(getsockname(fd, (struct sockaddr *)&a, &size));
	R(accept(fd, NULL, NULL));
	say_events("poll", wait_events(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	R(connect(fd, NULL, 16));
	R(connect(fd, (struct sockaddr *)&a, 1));
	a.ss_family = 77;
	R(connect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)));
	R(bind(fd, (struct sockaddr *)&a, 1));
	R(socket(AF_INET, SOCK_STREAM, 200));
	R(socket(AF_INET, SOCK_STREAM | 0x100000, 0));
	R(socket(77, SOCK_STREAM, 0));
	R(listen(fd, 1));
	R(recv(fd, &c, 1, 0));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	R(getpeername(fd, (struct sockaddr *)&a, &size));
	R(try_connect(fd, AF_INET, 1));
}

SOLO(connect_socket_types, 0)
{
	static const int types[] = { 0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC };
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	for (int i = 0; i < 4; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | types[i], i % 2 ? IPPROTO_TCP : 0);
		if (try_connect(fd, AF_INET, port) < 0)
			MUST(errno == EINPROGRESS && wait_events(fd, POLLOUT, 5000));
		int peer = accept4(listener, NULL, NULL, types[3 - i]);
		say("flags %d %d, peer %d %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK),
		    fcntl(fd, F_GETFD), !!(fcntl(peer, F_GETFL) & O_NONBLOCK),
		    fcntl(peer, F_GETFD));
		warm_up_both(fd, peer);
		say("status %s %s",
		    acceleration_expected() == accelerated(fd) ? "as wished" : "odd",
		    acceleration_expected() == accelerated(peer) ? "as wished" : "odd");
		close(fd);
		close(peer);
	}
	R(accept4(listener, NULL, NULL, 0x12345));
}

SOLO(connect_accept_flags, 0)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	set_nonblock(listener, true);
	R(accept(listener, NULL, NULL));
	int fd = connect_to(AF_INET, port);
	MUST(wait_events(listener, POLLIN, 5000));
	int peer = accept(listener, NULL, NULL);
	/* Unlike on BSD, O_NONBLOCK is not inherited. */
	say("O_NONBLOCK %d FD_CLOEXEC %d", !!(fcntl(peer, F_GETFL) & O_NONBLOCK),
	    fcntl(peer, F_GETFD));
	warm_up_both(fd, peer);
	int on = 1, off = 0, value = 0;
	socklen_t size = sizeof(value);
	/* Options of the listener are inherited. */
	MUST(!setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &off, sizeof(off)));
	MUST(!setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
	int fd2 = connect_to(AF_INET, port);
	MUST(wait_events(listener, POLLIN, 5000));
	int peer2 = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	say("O_NONBLOCK %d FD_CLOEXEC %d", !!(fcntl(peer2, F_GETFL) & O_NONBLOCK),
	    fcntl(peer2, F_GETFD));
	R(getsockopt(peer2, IPPROTO_TCP, TCP_NODELAY, &value, &size));
	say("TCP_NODELAY %d", value);
	R(getsockopt(peer2, SOL_SOCKET, SO_KEEPALIVE, &value, &size));
	say("SO_KEEPALIVE %d", value);
	warm_up_both(fd2, peer2);
}

static void say_name(const char *what, const struct sockaddr_storage *a, socklen_t size,
		     uint16_t port)
{
	const struct sockaddr_in6 *six = (const void *)a;
	say("%s: family %s size %u port as expected %d", what,
	    a->ss_family == AF_INET    ? "inet"
	    : a->ss_family == AF_INET6 ? "inet6"
				       : "other",
	    size, ntohs(six->sin6_port) == port);
}

SOLO(connect_accept_addresses, 0)
{
	static const int families[] = { AF_INET, AF_INET6 };
	for (int i = 0; i < 2; i++) {
		uint16_t port;
		struct sockaddr_storage a = { 0 };
		socklen_t size = sizeof(a);
		int listener = listen_on(families[i], false, &port);
		int fd = connect_to(families[i], port);
		int peer = accept(listener, (struct sockaddr *)&a, &size);
		say_name("accept", &a, size, port_of(fd));
		warm_up_both(fd, peer);
		/* A short buffer gets what fits, and the full size. */
		unsigned char small[4] = { 9, 9, 9, 9 };
		size = 3;
		int fd2 = connect_to(families[i], port);
		int peer2 = accept(listener, (struct sockaddr *)small, &size);
		say("size %u, bytes after the buffer untouched %d", size, small[3] == 9);
		warm_up_both(fd2, peer2);
		size = sizeof(a);
		R(getsockname(peer, (struct sockaddr *)&a, &size));
		say_name("getsockname", &a, size, port);
		size = 2;
		R(getpeername(fd, (struct sockaddr *)&a, &size));
		say("size %u", size);
		R(getpeername(fd, NULL, &size));
		R(getsockname(fd, (struct sockaddr *)&a, NULL));
		size = (socklen_t)-1;
		R(getsockname(fd, (struct sockaddr *)&a, &size));
		close(fd);
		close(peer);
		close(fd2);
		close(peer2);
		close(listener);
	}
}

SOLO(connect_accept_errors, MUST_BE_TCP)
{
	uint16_t port;
	int pipes[2];
	MUST(!pipe(pipes));
	int listener = listen_on(AF_INET, false, &port);
	R(accept(pipes[0], NULL, NULL));
	R(accept(-1, NULL, NULL));
	R(connect(pipes[0], NULL, 0));
	R(listen(pipes[0], 1));
	R(send(pipes[1], "x", 1, 0));
	R(recv(pipes[0], NULL, 0, 0));
	R(shutdown(pipes[0], SHUT_RD));
	R(send(-1, "x", 1, 0));
	R(recv(9999, NULL, 0, 0));
	R(shutdown(-1, SHUT_RD));
	R(shutdown(listener, SHUT_RDWR));
	R(accept(listener, NULL, NULL));
	R(listen(listener, 5));
	set_nonblock(listener, true);
	R(accept(listener, NULL, NULL));
}
