/* SPDX-License-Identifier: BSD-2-Clause */

/* Signals while waiting: EINTR, SA_RESTART, timeouts, masks, handlers that do I/O or jump away. */

#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>

#include "harness.h"

enum { TICK = 40 };

static void set_timeout(int fd, int option, int ms)
{
	struct timeval t = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	MUST(!setsockopt(fd, SOL_SOCKET, option, &t, sizeof(t)));
}

/* The quiet end of scenarios where the other end waits for nothing. */
static void stay(void)
{
	await(0);
}

PAIR(signals_recv_eintr, 0);

SERVER(signals_recv_eintr)
{
	char b[8];
	on_signal(SIGALRM, 0);
	alarm_every(TICK);
	R(recv(fd, b, sizeof(b), 0));
	R(read(fd, b, sizeof(b)));
	R(recv(fd, b, sizeof(b), MSG_PEEK));
	R(recv(fd, b, sizeof(b), MSG_WAITALL));
	alarm_every(0);
	YES(signals_seen >= 4);
	post(0);
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(signals_recv_eintr)
{
	stay();
	send_all(fd, "abc", 3);
}

PAIR(signals_recv_restart, 0);

SERVER(signals_recv_restart)
{
	char b[8];
	on_signal(SIGALRM, SA_RESTART);
	alarm_every(TICK);
	post(0);
	R(recv(fd, b, sizeof(b), 0));
	alarm_every(0);
	YES(signals_seen >= 2);
}

CLIENT(signals_recv_restart)
{
	await(0);
	nap(TICK * 4);
	send_all(fd, "abc", 3);
}

/* With a timeout set the call is not restarted. */
PAIR(signals_timeout_no_restart, 0);

SERVER(signals_timeout_no_restart)
{
	char b[8];
	on_signal(SIGALRM, SA_RESTART);
	set_timeout(fd, SO_RCVTIMEO, 2000);
	alarm_every(TICK);
	R(recv(fd, b, sizeof(b), 0));
	alarm_every(0);
	post(0);
}

CLIENT(signals_timeout_no_restart)
{
	(void)fd;
	stay();
}

PAIR(signals_rcvtimeo, 0);

SERVER(signals_rcvtimeo)
{
	char b[8];
	set_timeout(fd, SO_RCVTIMEO, 100);
	long start = now_ms();
	R(recv(fd, b, sizeof(b), 0));
	long took = now_ms() - start;
	YES(took >= 90 && took < 3000);
	R(read(fd, b, sizeof(b)));
	R(recv(fd, b, sizeof(b), MSG_PEEK));
	post(0);
	await(1);
	/* A part of what was asked for is better than the timeout. */
	R(recv(fd, b, sizeof(b), MSG_WAITALL));
	R(recv(fd, b, sizeof(b), MSG_WAITALL));
	set_timeout(fd, SO_RCVTIMEO, 0);
	post(2);
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(signals_rcvtimeo)
{
	await(0);
	send_all(fd, "abc", 3);
	post(1);
	await(2);
	nap(200);
	send_all(fd, "late", 4);
}

PAIR(signals_sndtimeo, SMALL_BUF);

SERVER(signals_sndtimeo)
{
	(void)fd;
	stay();
}

CLIENT(signals_sndtimeo)
{
	size_t size = 8 << 20;
	char *b = calloc(1, size);
	MUST(b);
	set_timeout(fd, SO_SNDTIMEO, 100);
	ssize_t n = send(fd, b, size, 0);
	YES(n > 0 && n < (ssize_t)size);
	long start = now_ms();
	for (;;) { /* the kernel may find a little more room */
		start = now_ms();
		n = send(fd, b, size, 0);
		if (n < 0)
			break;
	}
	report("send on full", n);
	long took = now_ms() - start;
	YES(took >= 90 && took < 3000);
	free(b);
	post(0);
}

/* Fills the connection until there is no room for a byte, and none comes: a probe of the window, 200 ms
 * later, may still make some. */
static void fill_up(int fd)
{
	char b[4096] = "";
	int quiet = 0;
	while (quiet < 300) {
		if (send(fd, b, sizeof(b), MSG_DONTWAIT) > 0 || send(fd, b, 1, MSG_DONTWAIT) > 0) {
			quiet = 0;
			continue;
		}
		nap(20);
		quiet += 20;
	}
}

PAIR(signals_send_eintr, SMALL_BUF);

SERVER(signals_send_eintr)
{
	(void)fd;
	stay();
}

CLIENT(signals_send_eintr)
{
	fill_up(fd);
	on_signal(SIGALRM, 0);
	alarm_every(TICK);
	R(send(fd, "abc", 3, 0));
	R(write(fd, "abc", 3));
	alarm_every(0);
	post(0);
}

PAIR(signals_send_restart, SMALL_BUF);

SERVER(signals_send_restart)
{
	char b[4096];
	await(0);
	nap(TICK * 4);
	ssize_t n;
	while ((n = recv(fd, b, sizeof(b), 0)) > 0)
		if (!memcmp(b + n - 4, "end.", 4))
			break;
	say("end seen");
}

CLIENT(signals_send_restart)
{
	fill_up(fd);
	on_signal(SIGALRM, SA_RESTART);
	alarm_every(TICK);
	post(0);
	R(send(fd, "end.", 4, 0));
	alarm_every(0);
	YES(signals_seen >= 2);
}

/* A signal in the middle of a large send: the part that went is told. */
PAIR(signals_send_partial, SMALL_BUF);

SERVER(signals_send_partial)
{
	await(0);
	say("intact %d", pattern_recv(fd, 1, 0, (size_t)shared_get(0), 65536));
	char b[8];
	R(recv(fd, b, sizeof(b), MSG_DONTWAIT));
}

CLIENT(signals_send_partial)
{
	size_t size = 32 << 20;
	char *b = malloc(size);
	MUST(b);
	pattern_fill(b, 1, 0, size);
	on_signal(SIGALRM, 0);
	alarm_every(TICK);
	ssize_t n = send(fd, b, size, 0);
	alarm_every(0);
	YES(n > 0 && n < (ssize_t)size);
	shared_set(0, n);
	post(0);
	free(b);
}

PAIR(signals_waitall_partial, 0);

SERVER(signals_waitall_partial)
{
	char b[16];
	on_signal(SIGALRM, 0);
	await(0);
	alarm_every(TICK);
	R(recv(fd, b, sizeof(b), MSG_WAITALL));
	alarm_every(0);
	post(1);
	/* With SA_RESTART too: data in hand is never thrown away. */
	on_signal(SIGALRM, SA_RESTART);
	await(2);
	alarm_every(TICK);
	R(recv(fd, b, sizeof(b), MSG_WAITALL));
	alarm_every(0);
}

CLIENT(signals_waitall_partial)
{
	send_all(fd, "abc", 3);
	post(0);
	await(1);
	send_all(fd, "defg", 4);
	post(2);
}

PAIR(signals_poll_eintr, 0);

SERVER(signals_poll_eintr)
{
	/* These are never restarted, whatever the handler asks for. */
	on_signal(SIGALRM, SA_RESTART);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event e = { .events = EPOLLIN }, out;
	int ep = epoll_create1(0);
	R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	fd_set set;
	alarm_every(TICK);
	R(poll(&p, 1, -1));
	R(poll(&p, 1, 5000));
	R(ppoll(&p, 1, NULL, NULL));
	R(epoll_wait(ep, &out, 1, -1));
	R(epoll_wait(ep, &out, 1, 5000));
	R(epoll_pwait(ep, &out, 1, -1, NULL));
	R(epoll_pwait2(ep, &out, 1, NULL, NULL));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	R(select(fd + 1, &set, NULL, NULL, NULL));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	R(pselect(fd + 1, &set, NULL, NULL, NULL, NULL));
	alarm_every(0);
	close(ep);
	post(0);
}

CLIENT(signals_poll_eintr)
{
	(void)fd;
	stay();
}

SOLO(signals_accept, SOME_TCP)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	on_signal(SIGALRM, 0);
	alarm_every(TICK);
	R(accept(listener, NULL, NULL));
	R(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	signals_seen = 0;
	on_signal(SIGALRM, SA_RESTART);
	pid_t child = fork();
	if (!child) {
		nap(TICK * 4);
		int c = connect_to(AF_INET, port);
		warm_up_client(c);
		_exit(0);
	}
	int fd = accept(listener, NULL, NULL);
	alarm_every(0);
	YES(fd >= 0);
	YES(signals_seen >= 2);
	warm_up_server(fd);
	say_status("child", reap(child));
}
