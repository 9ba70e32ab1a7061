/* SPDX-License-Identifier: BSD-2-Clause */

/* Signals by the old interface, and signals all through the change to shared memory. */

#include <sys/time.h>

#include "harness.h"

enum { TICK = 40 };

static void count(int signo)
{
	(void)signo;
	signals_seen++;
}

/* Old, and said so by the compiler; what is tested is what it does. */
static int interrupts(bool on)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	return siginterrupt(SIGALRM, on);
#pragma GCC diagnostic pop
}

/*
 * Pitfall 94: signal() means SA_RESTART, siginterrupt() takes it away, sigaction() starts without it. What a
 * call does is decided by the kernel's idea of the handler, not by ours.
 */
PAIR(signals_bsd, 0);

SERVER(signals_bsd)
{
	char b[8];
	for (int i = 0; i < 2; i++) {
		signals_seen = 0;
		MUST(signal(SIGALRM, count) != SIG_ERR);
		alarm_every(TICK);
		post(i);
		report(i ? "read" : "recv", i ? read(fd, b, sizeof(b)) : recv(fd, b, sizeof(b), 0));
		YES(signals_seen >= 2);
		MUST(!interrupts(true));
		report(i ? "read" : "recv", i ? read(fd, b, sizeof(b)) : recv(fd, b, sizeof(b), 0));
		R(accept(pair_listener, NULL, NULL));
		MUST(!interrupts(false));
		post(2 + i);
		R(recv(fd, b, sizeof(b), 0));
		alarm_every(0);
		/* System V's: once, and the handler is gone. */
		MUST(sysv_signal(SIGALRM, count) != SIG_ERR);
		struct itimerval once = { .it_value = { .tv_usec = TICK * 1000 } };
		setitimer(ITIMER_REAL, &once, NULL);
		R(recv(fd, b, sizeof(b), 0));
		YES(signal(SIGALRM, SIG_IGN) == SIG_DFL);
	}
	/* An ignored signal interrupts nothing. */
	alarm_every(TICK);
	post(4);
	R(recv(fd, b, sizeof(b), 0));
	alarm_every(0);
}

CLIENT(signals_bsd)
{
	for (int i = 0; i < 2; i++) {
		await(i);
		nap(TICK * 4);
		send_all(fd, "abc", 3);
		await(2 + i);
		nap(TICK * 3);
		send_all(fd, "de", 2);
	}
	await(4);
	nap(TICK * 3);
	send_all(fd, "f", 1);
}

/*
 * Pitfalls 92 and 93: both ends are interrupted all the time while they exchange data and the carrier changes,
 * with a handler that does not restart. The stream is intact, and no call shows anything but EINTR.
 */
static void exchange(int fd, uint32_t out, uint32_t in)
{
	struct itimerval often = { .it_interval = { .tv_usec = 300 },
				   .it_value = { .tv_usec = 300 } };
	struct timeval limit = { .tv_sec = 10 };
	int intact = 0;
	on_signal(SIGALRM, 0);
	MUST(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	MUST(!setitimer(ITIMER_REAL, &often, NULL));
	for (size_t i = 0; i < 4000; i++) {
		pattern_send(fd, out, i * 90, 90, 90);
		intact += pattern_recv(fd, in, i * 90, 90, 90);
	}
	alarm_every(0);
	say("intact %d", intact);
	YES(signals_seen > 0);
}

PAIR(signals_during_set_up, COLD);

SERVER(signals_during_set_up)
{
	exchange(fd, 1, 2);
}

CLIENT(signals_during_set_up)
{
	exchange(fd, 2, 1);
}
