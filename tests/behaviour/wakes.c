/* SPDX-License-Identifier: BSD-2-Clause */

/* Nobody sleeps through what he waits for: the worst of many waits counts, not the mean. */

#include <sys/select.h>

#include "epoll_set.h"
#include "harness.h"

/*
 * Pitfall 23: tens of thousands of waits of each kind, each of which must end soon. Where a wake-up that was
 * lost is made good by looking again every so often, one of them takes that long. The bound is far above what
 * a busy machine needs, and far below any such period.
 */
enum { WAITS = 6000, KINDS = 5, SOON_MS = 2000 };

PAIR(wakes_worst_of_many, 0);

static ssize_t wait_and_take(int fd, int ep, int kind)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event e;
	fd_set set;
	char c;
	switch (kind) {
	case 1:
		MUST(poll(&p, 1, -1) == 1);
		break;
	case 2:
	case 3:
		MUST(epoll_wait(ep, &e, 1, -1) == 1);
		break;
	case 4:
		FD_ZERO(&set);
		FD_SET(fd, &set);
		MUST(select(fd + 1, &set, NULL, NULL, NULL) == 1);
	}
	return recv(fd, &c, 1, kind ? MSG_DONTWAIT : 0);
}

static void one_kind(int fd, int kind, bool first)
{
	int ep = set_new();
	long worst = 0;
	if (kind == 2 || kind == 3)
		MUST(!ctl(ep, EPOLL_CTL_ADD, fd, kind == 2 ? EPOLLIN : EPOLLIN | EPOLLET, 1));
	for (int i = 0; i < WAITS; i++) {
		/* Now and then both ends have gone to sleep. */
		if (first && i % 500 == 0)
			nap(2);
		if (first)
			send_all(fd, "x", 1);
		long start = now_ms();
		MUST(wait_and_take(fd, ep, kind) == 1);
		if (now_ms() - start > worst)
			worst = now_ms() - start;
		if (!first)
			send_all(fd, "x", 1);
	}
	close(ep);
	say("kind %d: soon %d", kind, worst < SOON_MS);
}

SERVER(wakes_worst_of_many)
{
	for (int kind = 0; kind < KINDS; kind++)
		one_kind(fd, kind, false);
}

CLIENT(wakes_worst_of_many)
{
	for (int kind = 0; kind < KINDS; kind++)
		one_kind(fd, (kind + 1) % KINDS, true);
}

/*
 * Pitfall 22: a signal ends every kind of endless wait, and soon; also one that comes when the wait has just
 * begun and looks for data before it sleeps.
 */
static int signals_fd;

static void note(int signo)
{
	(void)signo;
	signals_seen++;
	/* Whoever is past his wait when the signal comes would wait for ever, as with TCP. */
	MUST(write(signals_fd, "s", 1) == 1);
}

PAIR(wakes_signal_soon, 0);

SERVER(wakes_signal_soon)
{
	static const char *const names[] = { "recv", "poll", "epoll", "select", "read" };
	int pipes[2], ep = set_new();
	struct sigaction act = { .sa_handler = note };
	char b[8];
	MUST(!pipe(pipes));
	signals_fd = pipes[1];
	MUST(!sigaction(SIGUSR1, &act, NULL));
	MUST(!ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	shared_set(0, getpid());
	for (int way = 0; way < 5; way++) {
		int eintr = 0, wrong = 0;
		for (int i = 0; i < 8; i++) {
			struct pollfd p = { .fd = fd, .events = POLLIN };
			struct epoll_event e;
			fd_set set;
			FD_ZERO(&set);
			FD_SET(fd, &set);
			post(way);
			long start = now_ms(), n = 0;
			errno = 0;
			switch (way) {
			case 0:
				n = recv(fd, b, 1, 0);
				break;
			case 1:
				n = poll(&p, 1, -1);
				break;
			case 2:
				n = epoll_wait(ep, &e, 1, -1);
				break;
			case 3:
				n = select(fd + 1, &set, NULL, NULL, NULL);
				break;
			case 4:
				n = read(fd, b, 1);
			}
			if (n == -1 && errno == EINTR)
				eintr++;
			if (now_ms() - start > 1000)
				wrong++;
			MUST(read(pipes[0], b, 1) == 1);
		}
		say("%s: interrupted %d late %d", names[way], eintr, wrong);
	}
}

CLIENT(wakes_signal_soon)
{
	(void)fd;
	for (int way = 0; way < 5; way++)
		for (int i = 0; i < 8; i++) {
			await_n(way, i + 1);
			nap(20);
			kill((pid_t)shared_get(0), SIGUSR1);
		}
}
