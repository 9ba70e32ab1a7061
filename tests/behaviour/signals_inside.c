/* SPDX-License-Identifier: BSD-2-Clause */

/* Handlers that run while a call copies bytes, and then use the same connection, leave the call or the process. */

#include <setjmp.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "harness.h"

enum { PIECE = 64 * 1024, HITS = 100 };

static int handler_fd;
static volatile long handler_sent, main_sent;
static char piece[PIECE];

/* Often, and never at the same place of what it interrupts. */
static void alarms(void (*handler)(int), bool on)
{
	struct sigaction act = { .sa_handler = handler };
	struct itimerval often = { { 0, 1000 + 37 }, { 0, 1000 } }, never = { 0 };

	MUST(!sigaction(SIGALRM, &act, NULL));
	setitimer(ITIMER_REAL, on ? &often : &never, NULL);
}

static void discard(int fd)
{
	char buffer[PIECE];

	while (recv(fd, buffer, sizeof(buffer), 0) > 0)
		continue;
}

/* The handler ends the process in the middle of a send: it does end, and the rest comes. */
PAIR(signals_exit_inside_send, 0);

static void leave(int signo)
{
	(void)signo;
	_exit(7);
}

SERVER(signals_exit_inside_send)
{
	discard(fd);
	say("end");
}

CLIENT(signals_exit_inside_send)
{
	int ended = 0, status;

	for (int i = 0; i < HITS; i++) {
		pid_t child = fork();
		if (!child) {
			struct itimerval once = { .it_value = { 0, 700 + 13 * i } };
			signal(SIGALRM, leave);
			setitimer(ITIMER_REAL, &once, NULL);
			for (;;)
				send(fd, piece, sizeof(piece), 0);
		}
		status = reap(child);
		ended += WIFEXITED(status) && WEXITSTATUS(status) == 7;
	}
	YES(ended == HITS);
	YES(send(fd, "x", 1, 0) == 1);
	R(shutdown(fd, SHUT_WR));
}

/* The handler sends on the connection whose send it interrupts: nothing hangs, nothing is lost. */
PAIR(signals_send_inside_send, 0);

static void send_one(int signo)
{
	int saved = errno;

	(void)signo;
	signals_seen++;
	if (send(handler_fd, "h", 1, MSG_DONTWAIT) == 1)
		handler_sent++;
	errno = saved;
}

SERVER(signals_send_inside_send)
{
	static char buffer[PIECE];
	long h = 0, m = 0;
	ssize_t n;

	while ((n = recv(fd, buffer, sizeof(buffer), 0)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			h += buffer[i] == 'h';
			m += buffer[i] == 'm';
		}
	shared_set(0, h);
	shared_set(1, m);
	post(0);
}

CLIENT(signals_send_inside_send)
{
	memset(piece, 'm', sizeof(piece));
	handler_fd = fd;
	alarms(send_one, true);
	while (signals_seen < HITS) {
		ssize_t n = send(fd, piece, sizeof(piece), 0);
		if (n > 0)
			main_sent += n;
	}
	alarms(send_one, false);
	shutdown(fd, SHUT_WR);
	await(0);
	YES(handler_sent > 0);
	YES(shared_get(0) == handler_sent);
	YES(shared_get(1) == main_sent);
}

/* The handler leaves the send for good, as old programs make their timeouts: the connection works on. */
PAIR(signals_longjmp_inside_send, 0);

static sigjmp_buf away;

static void jump(int signo)
{
	(void)signo;
	siglongjmp(away, 1);
}

SERVER(signals_longjmp_inside_send)
{
	discard(fd);
	say("end");
	R(send(fd, "answer", 6, 0));
}

CLIENT(signals_longjmp_inside_send)
{
	char b[8];
	volatile int left = 0;

	sigsetjmp(away, 1);
	if (left++ < HITS) {
		struct itimerval once = { .it_value = { 0, 300 + 17 * left } };
		signal(SIGALRM, jump);
		setitimer(ITIMER_REAL, &once, NULL);
		for (;;)
			send(fd, piece, sizeof(piece), 0);
	}
	YES(send(fd, "last", 4, 0) == 4);
	R(shutdown(fd, SHUT_WR));
	R(recv(fd, b, sizeof(b), 0));
}
