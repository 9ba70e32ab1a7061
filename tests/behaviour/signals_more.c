/* SPDX-License-Identifier: BSD-2-Clause */

/* Signals: masks of waits, handlers that do I/O or jump away, stopping. */

#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>

#include "harness.h"

enum { TICK = 40 };

/* The mask is exchanged for the time of the wait only. */
PAIR(signals_pwait_masks, 0);

SERVER(signals_pwait_masks)
{
	sigset_t all, none, old;
	sigfillset(&all);
	sigemptyset(&none);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event e = { .events = EPOLLIN }, out;
	struct timespec t = { .tv_nsec = 2 * TICK * 1000000 };
	fd_set set;
	int ep = epoll_create1(0);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
	on_signal(SIGALRM, 0);
	MUST(!sigprocmask(SIG_BLOCK, &all, &old));
	alarm_every(TICK / 2);
	R(ppoll(&p, 1, &t, NULL));
	say("handled %d", (int)signals_seen);
	R(ppoll(&p, 1, NULL, &none));
	say("handled %d", signals_seen > 0);
	signals_seen = 0;
	R(epoll_pwait(ep, &out, 1, 2 * TICK, &all));
	say("handled %d", (int)signals_seen);
	R(epoll_pwait(ep, &out, 1, -1, &none));
	say("handled %d", signals_seen > 0);
	signals_seen = 0;
	R(epoll_pwait2(ep, &out, 1, &t, NULL));
	say("handled %d", (int)signals_seen);
	R(epoll_pwait2(ep, &out, 1, NULL, &none));
	say("handled %d", signals_seen > 0);
	signals_seen = 0;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	R(pselect(fd + 1, &set, NULL, NULL, &t, NULL));
	say("handled %d", (int)signals_seen);
	FD_SET(fd, &set);
	R(pselect(fd + 1, &set, NULL, NULL, NULL, &none));
	say("handled %d", signals_seen > 0);
	sigset_t now;
	alarm_every(0);
	sigprocmask(SIG_SETMASK, NULL, &now);
	YES(sigismember(&now, SIGALRM));
	sigprocmask(SIG_SETMASK, &old, NULL);
	/* With data there, the wait does not wait; the data comes first. */
	post(0);
	await(1);
	R(ppoll(&p, 1, NULL, &none));
	R(epoll_pwait(ep, &out, 1, -1, &none));
}

CLIENT(signals_pwait_masks)
{
	await(0);
	send_all(fd, "x", 1);
	post(1);
}

/* A signal that is pending, but blocked, disturbs nothing. */
PAIR(signals_blocked_pending, 0);

SERVER(signals_blocked_pending)
{
	char b[8];
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	on_signal(SIGUSR1, 0);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	R(recv(fd, b, sizeof(b), MSG_DONTWAIT));
	post(0);
	R(recv(fd, b, sizeof(b), 0));
	R(wait_events(fd, POLLIN, 10));
	say("handled %d", (int)signals_seen);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	say("handled %d", (int)signals_seen);
	R(recv(fd, b, sizeof(b), MSG_DONTWAIT));
}

CLIENT(signals_blocked_pending)
{
	await(0);
	nap(50);
	send_all(fd, "abc", 3);
}

/* A handler that uses the very connection its process waits on, and another one. */
static int handler_fd, handler_other;

static void io_handler(int signo)
{
	int saved = errno;
	char c;
	(void)signo;
	if (recv(handler_fd, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
		signals_seen++;
	if (send(handler_fd, "h", 1, MSG_DONTWAIT) == 1 && write(handler_other, "h", 1) == 1)
		signals_seen++;
	errno = saved;
}

PAIR(signals_handler_does_io, 0);

SERVER(signals_handler_does_io)
{
	char b[8];
	int sv[2];
	self_pair(sv);
	handler_fd = fd;
	handler_other = sv[0];
	struct sigaction act = { .sa_handler = io_handler };
	MUST(!sigaction(SIGALRM, &act, NULL));
	struct itimerval once = { .it_value = { .tv_usec = TICK * 1000 } };
	for (int i = 0; i < 3; i++) {
		setitimer(ITIMER_REAL, &once, NULL);
		R(recv(fd, b, sizeof(b), 0));
	}
	say("steps %d", (int)signals_seen);
	R(recv(sv[1], b, sizeof(b), 0));
	post(0);
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(signals_handler_does_io)
{
	char b[8];
	await(0);
	R(recv(fd, b, sizeof(b), 0));
	send_all(fd, "end", 3);
}

static sigjmp_buf away;

static void jump(int signo)
{
	(void)signo;
	siglongjmp(away, 1);
}

/* A handler that leaves the blocked call for good: the connection works on, nothing stays locked. */
PAIR(signals_longjmp_out, 0);

SERVER(signals_longjmp_out)
{
	char b[8];
	struct sigaction act = { .sa_handler = jump };
	struct itimerval once = { .it_value = { .tv_usec = TICK * 1000 } };
	MUST(!sigaction(SIGALRM, &act, NULL));
	for (volatile int i = 0; i < 4; i++) {
		if (sigsetjmp(away, 1)) {
			say("left the call");
			continue;
		}
		setitimer(ITIMER_REAL, &once, NULL);
		if (i % 2)
			wait_events(fd, POLLIN, -1);
		else
			recv(fd, b, sizeof(b), 0);
		say("not reached");
	}
	post(0);
	R(recv(fd, b, sizeof(b), 0));
	R(send(fd, "back", 4, 0));
}

CLIENT(signals_longjmp_out)
{
	char b[8];
	await(0);
	send_all(fd, "abc", 3);
	R(recv(fd, b, sizeof(b), 0));
}

/* Stopped and continued in the middle of a wait. */
PAIR(signals_stop_continue, 0);

SERVER(signals_stop_continue)
{
	char b[8];
	shared_set(0, getpid());
	post(0);
	R(recv(fd, b, sizeof(b), 0));
	post(1);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	R(poll(&p, 1, 5000));
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(signals_stop_continue)
{
	for (int i = 0; i < 2; i++) {
		await(i);
		nap(30);
		pid_t pid = (pid_t)shared_get(0);
		kill(pid, SIGSTOP);
		nap(20);
		if (i)
			send_all(fd, "xyz", 3);
		nap(20);
		kill(pid, SIGCONT);
		nap(20);
		if (!i)
			send_all(fd, "abc", 3);
	}
}
