/* SPDX-License-Identifier: BSD-2-Clause */

/* The ends of connections: half close, full close, reset, death. */

#include <sys/epoll.h>
#include <sys/wait.h>

#include "harness.h"

enum { ALL_EVENTS = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

static void say_so_error(int fd)
{
	int err = -1;
	socklen_t size = sizeof(err);
	MUST(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size));
	say("SO_ERROR %s", err ? errno_name(err) : "0");
}

PAIR(shut_half_close, 0);

SERVER(shut_half_close)
{
	bool ok;
	int err;
	say("received %zu", recv_to_end(fd, 1, 0, &ok, &err));
	say("intact %d error %d", ok, err);
	say_poll_with(fd, POLLRDHUP);
	pattern_send(fd, 2, 0, 10 << 20, 100000);
	R(shutdown(fd, SHUT_WR));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
}

CLIENT(shut_half_close)
{
	bool ok;
	int err;
	pattern_send(fd, 1, 0, 100000, 10000);
	R(shutdown(fd, SHUT_WR));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	say("received %zu", recv_to_end(fd, 2, 0, &ok, &err));
	say("intact %d error %d", ok, err);
	char c;
	R(recv(fd, &c, 1, 0));
	R(read(fd, &c, 1));
	say_poll_with(fd, POLLHUP);
}

PAIR(shut_write_then_close, 0);

SERVER(shut_write_then_close)
{
	bool ok;
	int err;
	await(0);
	nap(20);
	say_poll_with(fd, POLLRDHUP);
	say("received %zu", recv_to_end(fd, 1, 0, &ok, &err));
	say("intact %d error %d", ok, err);
	say_poll_with(fd, POLLRDHUP);
	/* The first write after the peer's close is accepted, and answered by a reset. */
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	say_poll_with(fd, POLLHUP);
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	char c;
	R(recv(fd, &c, 1, 0));
}

CLIENT(shut_write_then_close)
{
	pattern_send(fd, 1, 0, 65536, 65536);
	R(close(fd));
	post(0);
}

PAIR(shut_sigpipe, 0);

SERVER(shut_sigpipe)
{
	on_signal(SIGPIPE, 0);
	await(0);
	say_poll_with(fd, POLLRDHUP);
	R(write(fd, "x", 1));
	say_poll_with(fd, POLLHUP);
	say("signals %d", (int)signals_seen);
	R(write(fd, "x", 1));
	say("signals %d", (int)signals_seen);
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	say("signals %d", (int)signals_seen);
	pid_t child = fork();
	if (!child) {
		signal(SIGPIPE, SIG_DFL);
		write(fd, "x", 1) < 0 ? _exit(1) : _exit(0);
	}
	say_status("child that writes", reap(child));
}

CLIENT(shut_sigpipe)
{
	close(fd);
	post(0);
}

PAIR(shut_reset, 0);

SERVER(shut_reset)
{
	char c;
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP }, out = { 0 };
	int ep = epoll_create1(0);
	MUST(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	await(0);
	say_poll_with(fd, POLLHUP);
	R(epoll_wait(ep, &out, 1, 1000));
	say_events("epoll", out.events);
	struct pollfd p = { .fd = fd };
	R(poll(&p, 1, 1000));
	say_events("poll for nothing", (unsigned)p.revents);
	R(recv(fd, &c, 1, 0));
	R(recv(fd, &c, 1, 0));
	say_poll_with(fd, POLLHUP);
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	say_so_error(fd);
	R(shutdown(fd, SHUT_WR));
	close(ep);
}

CLIENT(shut_reset)
{
	linger_reset(fd);
	close(fd);
	post(0);
}

PAIR(shut_reset_so_error, 0);

SERVER(shut_reset_so_error)
{
	char c;
	await(0);
	say_poll_with(fd, POLLHUP);
	say_so_error(fd);
	say_so_error(fd);
	R(recv(fd, &c, 1, 0));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
}

CLIENT(shut_reset_so_error)
{
	linger_reset(fd);
	close(fd);
	post(0);
}

PAIR(shut_reset_first_send, 0);

SERVER(shut_reset_first_send)
{
	char c;
	await(0);
	say_poll_with(fd, POLLHUP);
	on_signal(SIGPIPE, 0);
	R(send(fd, "x", 1, 0));
	say("signals %d", (int)signals_seen);
	R(send(fd, "x", 1, 0));
	say("signals %d", (int)signals_seen);
	R(recv(fd, &c, 1, 0));
}

CLIENT(shut_reset_first_send)
{
	linger_reset(fd);
	close(fd);
	post(0);
}

/* Data that had arrived before the reset can still be read. */
PAIR(shut_reset_after_data, 0);

SERVER(shut_reset_after_data)
{
	char b[16] = "";
	MUST(wait_queued(fd, 5));
	post(0);
	await(1);
	say_poll_with(fd, POLLHUP);
	R(recv(fd, b, 3, 0));
	R(recv(fd, b + 3, 3, 0));
	say("got %s", b);
	R(recv(fd, b, 3, 0));
	R(recv(fd, b, 3, 0));
}

CLIENT(shut_reset_after_data)
{
	send_all(fd, "abcde", 5);
	await(0);
	linger_reset(fd);
	close(fd);
	post(1);
}

/* A close with unread data is a reset. */
PAIR(shut_close_unread, 0);

SERVER(shut_close_unread)
{
	char c;
	send_all(fd, "abcde", 5);
	post(0);
	await(1);
	say_poll_with(fd, POLLHUP);
	R(recv(fd, &c, 1, 0));
	R(recv(fd, &c, 1, 0));
}

CLIENT(shut_close_unread)
{
	await(0);
	MUST(wait_queued(fd, 5));
	R(close(fd));
	post(1);
}

/* The same when only a part was read, with the peer blocked in recv. */
PAIR(shut_close_part_unread, 0);

SERVER(shut_close_part_unread)
{
	char c;
	pattern_send(fd, 1, 0, 5000, 5000);
	R(recv(fd, &c, 1, 0));
}

CLIENT(shut_close_part_unread)
{
	char c;
	MUST(wait_queued(fd, 5000));
	R(recv(fd, &c, 1, 0));
	nap(40);
	R(close(fd));
}

PAIR(shut_rd, 0);

SERVER(shut_rd)
{
	char b[16];
	await(0);
	MUST(wait_queued(fd, 5));
	R(shutdown(fd, SHUT_RD));
	say_events("poll", wait_events(fd, ALL_EVENTS, 0));
	R(recv(fd, b, 3, 0));
	R(recv(fd, b, sizeof(b), 0));
	R(recv(fd, b, sizeof(b), 0));
	R(recv(fd, b, sizeof(b), MSG_DONTWAIT));
	R(send(fd, "back", 4, 0));
	post(1);
	await(2);
	/* Linux goes on receiving. */
	MUST(wait_queued(fd, 4));
	R(recv(fd, b, sizeof(b), 0));
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(shut_rd)
{
	char b[16];
	send_all(fd, "abcde", 5);
	post(0);
	await(1);
	R(recv(fd, b, sizeof(b), 0));
	R(send(fd, "more", 4, 0));
	post(2);
}

PAIR(shut_argument_errors, 0);

SERVER(shut_argument_errors)
{
	char c;
	R(recv(fd, &c, 1, 0));
	R(recv(fd, &c, 1, 0));
	await(0);
	R(shutdown(fd, SHUT_RDWR));
}

CLIENT(shut_argument_errors)
{
	R(shutdown(fd, 3));
	R(shutdown(fd, -1));
	R(send(fd, "x", 1, 0));
	R(shutdown(fd, SHUT_WR));
	R(shutdown(fd, SHUT_WR));
	R(shutdown(fd, SHUT_RD));
	say_events("poll", wait_events(fd, ALL_EVENTS, 0));
	R(shutdown(fd, SHUT_RDWR));
	post(0);
}

PAIR(shut_both, 0);

SERVER(shut_both)
{
	char c;
	R(recv(fd, &c, 1, 0));
	R(recv(fd, &c, 1, 0));
	say_poll_with(fd, POLLRDHUP);
	post(0);
	await(1);
	R(send(fd, "x", 1, MSG_NOSIGNAL));
}

CLIENT(shut_both)
{
	char c;
	R(send(fd, "x", 1, 0));
	R(shutdown(fd, SHUT_RDWR));
	say_events("poll", wait_events(fd, ALL_EVENTS, 0));
	R(recv(fd, &c, 1, 0));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	await(0);
	post(1);
}

/* O_NONBLOCK survives the end of one direction. */
PAIR(shut_keeps_nonblock, NONBLOCK);

SERVER(shut_keeps_nonblock)
{
	char c;
	R(shutdown(fd, SHUT_WR));
	R(recv(fd, &c, 1, 0));
	R(fcntl(fd, F_GETFL) & O_NONBLOCK);
	post(0);
	say_events("poll", wait_events(fd, POLLIN, 5000));
	R(recv(fd, &c, 1, 0));
}

CLIENT(shut_keeps_nonblock)
{
	char c;
	await(0);
	say_events("poll", wait_events(fd, POLLIN, 5000));
	R(recv(fd, &c, 1, 0));
	R(send(fd, "x", 1, 0));
}

PAIR(shut_linger_time, 0);

SERVER(shut_linger_time)
{
	await(0);
	nap(50);
	say("intact %d", pattern_recv(fd, 1, 0, 100000, 1000));
	char c;
	R(recv(fd, &c, 1, 0));
}

CLIENT(shut_linger_time)
{
	struct linger l = { .l_onoff = 1, .l_linger = 5 };
	R(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	pattern_send(fd, 1, 0, 100000, 100000);
	post(0);
	long start = now_ms();
	R(close(fd));
	YES(now_ms() - start < 4000);
}

/* Both ends closed at the same time, over and over. */
SOLO(shut_close_both_at_once, SOME_TCP)
{
	for (int i = 0; i < 50; i++) {
		int sv[2];
		char c;
		self_pair(sv);
		MUST(send(sv[i % 2], "x", 1, 0) == 1);
		MUST(recv(sv[!(i % 2)], &c, 1, 0) == 1);
		close(sv[i % 2]);
		close(sv[!(i % 2)]);
	}
	say("done");
}
