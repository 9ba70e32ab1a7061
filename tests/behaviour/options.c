/* SPDX-License-Identifier: BSD-2-Clause */

/* Socket options, ioctl and fcntl on an accelerated connection. */

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "harness.h"

PAIR(options_fionread, 0);

SERVER(options_fionread)
{
	char b[16];
	int n = -1;
	R(ioctl(fd, FIONREAD, &n));
	say("queued %d", n);
	post(0);
	await(1);
	R(ioctl(fd, FIONREAD, &n));
	say("queued %d", n);
	R(recv(fd, b, 3, MSG_PEEK));
	R(recv(fd, b, 3, 0));
	R(ioctl(fd, SIOCINQ, &n));
	say("queued %d", n);
	post(2);
	await(3);
	R(ioctl(fd, FIONREAD, &n));
	say("queued %d", n);
	R(recv(fd, b, sizeof(b), 0));
	R(ioctl(fd, FIONREAD, &n));
	say("queued %d", n);
	post(4);
	MUST(wait_events(fd, POLLRDHUP, 5000));
	R(ioctl(fd, FIONREAD, &n));
	say("queued at the end %d", n);
	R(ioctl(pair_listener, FIONREAD, &n));
}

CLIENT(options_fionread)
{
	await(0);
	send_all(fd, "abcde", 5);
	post(1);
	await(2);
	send_all(fd, "fgh", 3);
	post(3);
	await(4);
	shutdown(fd, SHUT_WR);
}

/* SIOCOUTQ is zero once the peer has everything, and not while it cannot take it. */
PAIR(options_outq, SMALL_BUF);

SERVER(options_outq)
{
	char b[4096];
	await(0);
	while (recv(fd, b, sizeof(b), 0) > 0)
		;
}

CLIENT(options_outq)
{
	char b[4096] = "";
	int n = -1;
	/* What has arrived may be acknowledged a little later. */
	for (int i = 0; i < 100 && !ioctl(fd, SIOCOUTQ, &n) && n; i++)
		nap(10);
	say("queued %d", n);
	while (send(fd, b, sizeof(b), MSG_DONTWAIT) > 0 || wait_events(fd, POLLOUT, 50))
		;
	R(ioctl(fd, TIOCOUTQ, &n));
	YES(n > 0);
	post(0);
	long end = now_ms() + 5000;
	while (!ioctl(fd, SIOCOUTQ, &n) && n && now_ms() < end)
		nap(1);
	say("queued in the end %d", n);
	R(shutdown(fd, SHUT_WR));
}

PAIR(options_ioctl, 0);

SERVER(options_ioctl)
{
	struct winsize size;
	int n = -1, on = 1, off = 0;
	char b[8];
	R(ioctl(fd, FIONBIO, &on));
	R(fcntl(fd, F_GETFL) & O_NONBLOCK);
	R(recv(fd, b, sizeof(b), 0));
	R(ioctl(fd, FIONBIO, &off));
	R(fcntl(fd, F_GETFL) & O_NONBLOCK);
	R(ioctl(fd, SIOCATMARK, &n));
	say("at mark %d", n);
	R(ioctl(fd, TIOCGWINSZ, &size));
	R(ioctl(fd, FIOCLEX));
	R(fcntl(fd, F_GETFD));
	R(ioctl(fd, FIONCLEX));
	R(fcntl(fd, F_GETFD));
	R(ioctl(fd, 0x12345678, &n));
	R(ioctl(fd, FIONREAD, NULL));
	post(0);
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(options_ioctl)
{
	await(0);
	nap(20);
	send_all(fd, "abc", 3);
}

PAIR(options_fcntl_nonblock, 0);

SERVER(options_fcntl_nonblock)
{
	char b[8];
	int flags = fcntl(fd, F_GETFL);
	say("access mode %d", flags & O_ACCMODE);
	R(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
	R(recv(fd, b, sizeof(b), 0));
	R(fcntl(fd, F_SETFL, flags | O_NONBLOCK | O_APPEND));
	R(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_APPEND));
	R(fcntl(fd, F_SETFL, flags));
	R(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_APPEND));
	R(fcntl(fd, F_SETFD, FD_CLOEXEC));
	R(fcntl(fd, F_GETFL) & O_NONBLOCK);
	post(0);
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(options_fcntl_nonblock)
{
	await(0);
	nap(30);
	send_all(fd, "abc", 3);
}

static void say_int(const char *name, int fd, int level, int option)
{
	int value = -1;
	socklen_t size = sizeof(value);
	errno = 0;
	int n = getsockopt(fd, level, option, &value, &size);
	if (n)
		say("%s: %s", name, errno_name(errno));
	else
		say("%s: %d size %u", name, value, size);
}

#define OPTION(level, name) say_int(#name, fd, level, name)

PAIR(options_get, 0);

SERVER(options_get)
{
	OPTION(SOL_SOCKET, SO_TYPE);
	OPTION(SOL_SOCKET, SO_PROTOCOL);
	OPTION(SOL_SOCKET, SO_DOMAIN);
	OPTION(SOL_SOCKET, SO_ACCEPTCONN);
	OPTION(SOL_SOCKET, SO_ERROR);
	OPTION(SOL_SOCKET, SO_REUSEADDR);
	OPTION(SOL_SOCKET, SO_KEEPALIVE);
	OPTION(SOL_SOCKET, SO_OOBINLINE);
	OPTION(SOL_SOCKET, SO_RCVLOWAT);
	OPTION(SOL_SOCKET, SO_SNDLOWAT);
	OPTION(SOL_SOCKET, SO_BROADCAST);
	OPTION(SOL_SOCKET, 9999);
	OPTION(IPPROTO_TCP, TCP_NODELAY);
	OPTION(IPPROTO_TCP, TCP_CORK);
	OPTION(IPPROTO_TCP, TCP_KEEPIDLE);
	OPTION(IPPROTO_TCP, TCP_USER_TIMEOUT);
	OPTION(IPPROTO_TCP, 9999);
	OPTION(IPPROTO_IP, IP_TOS);
	OPTION(IPPROTO_UDP, 1);
	/* The listener is one, the connection is not. */
	int value;
	socklen_t size = sizeof(value);
	R(getsockopt(pair_listener, SOL_SOCKET, SO_ACCEPTCONN, &value, &size));
	say("listener %d", value);
	size = 1;
	R(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size));
	say("size %u", size);
	size = (socklen_t)-1;
	R(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size));
	static void *volatile null;
	R(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, (socklen_t *)null));
	struct tcp_info info;
	size = sizeof(info);
	R(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size));
	say("state %d", info.tcpi_state);
}

CLIENT(options_get)
{
	int one = 1, big = 1 << 20;
	static void *volatile null;
	R(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)));
	R(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	R(setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof(one)));
	R(setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &one, sizeof(one)));
	R(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &big, sizeof(big)));
	R(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &big, sizeof(big)));
	R(setsockopt(fd, SOL_SOCKET, SO_TYPE, &one, sizeof(one)));
	R(setsockopt(fd, SOL_SOCKET, 9999, &one, sizeof(one)));
	R(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, 1));
	R(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (void *)null, sizeof(one)));
	R(setsockopt(fd, IPPROTO_TCP, 9999, &one, sizeof(one)));
	OPTION(SOL_SOCKET, SO_KEEPALIVE);
	OPTION(IPPROTO_TCP, TCP_NODELAY);
	OPTION(SOL_SOCKET, SO_PRIORITY);
}

/* Corked data goes out on uncork; nothing is lost, nothing waits for ever. */
PAIR(options_cork, 0);

SERVER(options_cork)
{
	char b[16] = "";
	recv_all(fd, b, 9);
	say("got %s", b);
	send_all(fd, "x", 1);
	recv_all(fd, b, 3);
	say("got %.3s", b);
}

CLIENT(options_cork)
{
	int on = 1, off = 0;
	char c;
	R(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)));
	R(send(fd, "abc", 3, 0));
	R(send(fd, "def", 3, 0));
	R(send(fd, "ghi", 3, 0));
	R(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof(off)));
	recv_all(fd, &c, 1);
	/* Corked and forgotten: TCP sends it after 200 ms. */
	R(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)));
	R(send(fd, "jkl", 3, 0));
	say_events("peer has not closed", wait_events(fd, POLLRDHUP, 300));
}

/* What a blocking recv does with it is left out: plain Linux may sleep on when both parts came as one. */
PAIR(options_rcvlowat, 0);

SERVER(options_rcvlowat)
{
	char b[16];
	int low = 4;
	R(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	post(0);
	MUST(wait_queued(fd, 3));
	say_events("poll with 3", wait_events(fd, POLLIN, 50));
	R(recv(fd, b, sizeof(b), MSG_DONTWAIT));
	post(1);
	say_events("poll with 5", wait_events(fd, POLLIN, 5000));
	MUST(wait_queued(fd, 5));
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(options_rcvlowat)
{
	await(0);
	send_all(fd, "abc", 3);
	await(1);
	send_all(fd, "defgh", 5);
}

PAIR(options_oob, 0);

SERVER(options_oob)
{
	char b[16];
	int mark = -1;
	await(0);
	say_events("poll", wait_events(fd, POLLPRI, 5000));
	R(recv(fd, b, sizeof(b), 0));
	R(ioctl(fd, SIOCATMARK, &mark));
	say("at mark %d", mark);
	R(recv(fd, b, 1, MSG_OOB));
	say("urgent %c", b[0]);
	R(recv(fd, b, 1, MSG_OOB));
	R(recv(fd, b, sizeof(b), 0));
	say("rest %.3s", b);
	post(1);
	/* Inline from here. */
	int on = 1;
	R(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)));
	await(2);
	MUST(wait_queued(fd, 2));
	R(recv(fd, b, 1, MSG_OOB));
	R(recv(fd, b, 1, 0));
	R(ioctl(fd, SIOCATMARK, &mark));
	say("at mark %d", mark);
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(options_oob)
{
	R(send(fd, "abc", 3, 0));
	R(send(fd, "!", 1, MSG_OOB));
	R(send(fd, "def", 3, 0));
	post(0);
	await(1);
	R(send(fd, "x", 1, 0));
	R(send(fd, "?", 1, MSG_OOB));
	post(2);
}

/* Signal driven I/O. */
PAIR(options_async, 0);

SERVER(options_async)
{
	char b[8];
	on_signal(SIGIO, 0);
	R(fcntl(fd, F_SETOWN, getpid()));
	R(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC));
	post(0);
	for (int i = 0; i < 100 && !signals_seen; i++)
		nap(20);
	YES(signals_seen > 0);
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(options_async)
{
	await(0);
	nap(20);
	send_all(fd, "abc", 3);
}

/* An SO_LINGER with time and a peer that never reads: close() does not wait for ever. */
PAIR(options_linger_zero_unread, 0);

SERVER(options_linger_zero_unread)
{
	await(0);
	char b[16];
	long end = now_ms() + 5000;
	while (!(wait_events(fd, 0, 0) & POLLHUP) && now_ms() < end)
		nap(1);
	R(recv(fd, b, 3, 0));
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(options_linger_zero_unread)
{
	send_all(fd, "abc", 3);
	linger_reset(fd);
	long start = now_ms();
	R(close(fd));
	YES(now_ms() - start < 1000);
	post(0);
}
