/* SPDX-License-Identifier: BSD-2-Clause */

/* poll and select, in all their forms. */

#include <sys/eventfd.h>
#include <sys/select.h>

#include "harness.h"

enum { ALL_EVENTS = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

PAIR(poll_masks, 0);

SERVER(poll_masks)
{
	char b[16];
	static const short asked[] = { POLLIN,	   POLLOUT,    POLLIN | POLLOUT, 0,
				       POLLRDNORM, POLLWRNORM, POLLPRI,		 POLLRDHUP,
				       POLLRDBAND, POLLWRBAND };
	for (int data = 0; data < 2; data++) {
		if (data) {
			post(0);
			MUST(wait_queued(fd, 3));
		}
		for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
			struct pollfd p = { .fd = fd, .events = asked[i], .revents = -1 };
			int n = poll(&p, 1, 0);
			char text[64], got[64];
			events_text((unsigned short)asked[i], text, sizeof(text));
			events_text((unsigned short)p.revents, got, sizeof(got));
			say("asked %s: %d %s", text, n, got);
		}
	}
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(poll_masks)
{
	await(0);
	send_all(fd, "abc", 3);
}

PAIR(poll_waits_for_data, 0);

SERVER(poll_waits_for_data)
{
	char c;
	bool late = false;
	int wrong = 0;
	for (int i = 0; i < 300; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		long start = now_ms();
		int n = poll(&p, 1, 5000);
		late = late || now_ms() - start > 1000;
		if (n != 1 || p.revents != POLLIN || recv(fd, &c, 1, MSG_DONTWAIT) != 1)
			wrong++;
		send_all(fd, "y", 1);
	}
	say("wrong %d late %d", wrong, late);
}

CLIENT(poll_waits_for_data)
{
	char c;
	for (int i = 0; i < 300; i++) {
		if (i % 30 == 0)
			nap(5);
		send_all(fd, "x", 1);
		recv_all(fd, &c, 1);
	}
}

PAIR(poll_timeouts, 0);

SERVER(poll_timeouts)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec t = { .tv_nsec = 60 * 1000 * 1000 }, bad = { .tv_nsec = 1000000000 };
	long start = now_ms();
	R(poll(&p, 1, 60));
	YES(now_ms() - start >= 59);
	start = now_ms();
	R(ppoll(&p, 1, &t, NULL));
	YES(now_ms() - start >= 59);
	say("timespec %ld %ld", (long)t.tv_sec, t.tv_nsec);
	R(ppoll(&p, 1, &bad, NULL));
	start = now_ms();
	R(poll(NULL, 0, 60));
	YES(now_ms() - start >= 59);
	R(poll(&p, 1, 0));
	p.fd = -1;
	p.revents = 7;
	R(poll(&p, 1, 0));
	say("revents %d", p.revents);
	R(poll(&p, 0, 0));
	post(0);
}

CLIENT(poll_timeouts)
{
	(void)fd;
	await(0);
}

PAIR(poll_mixed_fds, 0);

SERVER(poll_mixed_fds)
{
	int pipes[2], event = eventfd(0, 0), gone = dup(fd);
	char b[8];
	MUST(!pipe(pipes));
	close(gone);
	struct pollfd p[] = { { .fd = fd, .events = POLLIN },
			      { .fd = pipes[0], .events = POLLIN },
			      { .fd = -5, .events = POLLIN },
			      { .fd = fd, .events = POLLOUT | POLLIN },
			      { .fd = event, .events = POLLIN },
			      { .fd = gone, .events = POLLIN },
			      { .fd = pair_listener, .events = POLLIN },
			      { .fd = fd } };
	for (int round = 0; round < 4; round++) {
		if (round == 1)
			MUST(write(pipes[1], "p", 1) == 1);
		if (round == 2) {
			post(0);
			MUST(wait_queued(fd, 1));
		}
		if (round == 3)
			MUST(read(pipes[0], b, 1) == 1);
		say("poll %d", poll(p, 8, 0));
		for (int i = 0; i < 8; i++)
			say_events("  fd", (unsigned short)p[i].revents);
	}
	/* Only the plain one wakes it. */
	p[5].fd = -1;
	p[3].events = 0;
	MUST(recv(fd, b, 1, 0) == 1);
	post(1);
	R(poll(p, 8, 2000));
	say_events("accelerated", (unsigned short)p[0].revents);
	uint64_t one = 1;
	MUST(recv(fd, b, 1, 0) == 1 && write(event, &one, 8) == 8);
	R(poll(p, 8, 2000));
	say_events("accelerated", (unsigned short)p[0].revents);
	say_events("eventfd", (unsigned short)p[4].revents);
}

CLIENT(poll_mixed_fds)
{
	await(0);
	send_all(fd, "x", 1);
	await(1);
	nap(40);
	send_all(fd, "y", 1);
}

PAIR(poll_out_when_drained, SMALL_BUF);

SERVER(poll_out_when_drained)
{
	char b[65536];
	await(0);
	nap(40);
	ssize_t n;
	while ((n = recv(fd, b, sizeof(b), 0)) > 0)
		;
	R(n);
}

CLIENT(poll_out_when_drained)
{
	char b[65536] = "";
	for (;;) {
		if (send(fd, b, sizeof(b), MSG_DONTWAIT) < 0 && !wait_events(fd, POLLOUT, 50))
			break;
	}
	while (send(fd, b, 1, MSG_DONTWAIT) > 0)
		;
	struct pollfd p = { .fd = fd, .events = POLLOUT | POLLIN };
	R(poll(&p, 1, 0));
	post(0);
	R(poll(&p, 1, 5000));
	say_events("poll", (unsigned short)p.revents);
	YES(send(fd, b, 1000, MSG_DONTWAIT) > 0);
	shutdown(fd, SHUT_WR);
}

/* POLLOUT means that there is room for more than a byte: programs that poll and then write a few KiB with a
 * blocking descriptor rely on it. */
PAIR(poll_out_means_room, 0);

SERVER(poll_out_means_room)
{
	char b[512];
	await(0);
	/* Very slowly at first, so that poll is asked at every level of room. */
	for (int i = 0; i < 200 && !shared_get(0); i++) {
		recv_all(fd, b, sizeof(b));
		nap(1);
	}
	while (recv(fd, b, sizeof(b), 0) > 0)
		;
}

CLIENT(poll_out_means_room)
{
	static char b[65536];
	while (send(fd, b, sizeof(b), MSG_DONTWAIT) > 0 || wait_events(fd, POLLOUT, 50))
		;
	while (send(fd, b, 1, MSG_DONTWAIT) > 0)
		;
	say_events("full", wait_events(fd, POLLOUT, 0));
	post(0);
	say_events("room", wait_events(fd, POLLOUT, 8000));
	R(send(fd, b, 4096, MSG_DONTWAIT));
	shared_set(0, 1);
	shutdown(fd, SHUT_WR);
}

/* Closed ends: nothing is asked for, or all. */
PAIR(poll_after_fin, 0);

SERVER(poll_after_fin)
{
	await(0);
	MUST(wait_queued(fd, 3));
	MUST(wait_events(fd, POLLRDHUP, 5000));
	struct pollfd p = { .fd = fd };
	char b[8];
	R(poll(&p, 1, 50));
	say_events("with data", wait_events(fd, ALL_EVENTS, 0));
	R(recv(fd, b, sizeof(b), 0));
	say_events("without", wait_events(fd, ALL_EVENTS, 0));
	say_events("only in", wait_events(fd, POLLIN, 0));
	R(shutdown(fd, SHUT_WR));
	nap(20);
	say_events("both closed", wait_events(fd, ALL_EVENTS, 0));
	R(poll(&p, 1, 1000));
	say_events("for nothing", (unsigned short)p.revents);
}

CLIENT(poll_after_fin)
{
	send_all(fd, "abc", 3);
	shutdown(fd, SHUT_WR);
	post(0);
	say_events("poll", wait_events(fd, POLLIN, 5000));
}

/* Pitfall 11: errors and the end are told to who asks for nothing. */
PAIR(poll_after_reset, 0);

SERVER(poll_after_reset)
{
	struct pollfd p = { .fd = fd };
	fd_set in, out, except;
	struct timeval none = { 0 };
	char c;
	R(poll(&p, 1, 0));
	post(0);
	R(poll(&p, 1, 5000));
	say_events("for nothing", (unsigned short)p.revents);
	say_events("for all", wait_events(fd, ALL_EVENTS, 0));
	say_events("for input", wait_events(fd, POLLIN, 0));
	FD_ZERO(&in);
	FD_SET(fd, &in);
	out = except = in;
	R(select(fd + 1, &in, &out, &except, &none));
	say("in %d out %d except %d", FD_ISSET(fd, &in) != 0, FD_ISSET(fd, &out) != 0,
	    FD_ISSET(fd, &except) != 0);
	R(recv(fd, &c, 1, 0));
	/* The error is told once, the end remains. */
	R(poll(&p, 1, 0));
	say_events("for nothing", (unsigned short)p.revents);
	R(recv(fd, &c, 1, 0));
}

CLIENT(poll_after_reset)
{
	await(0);
	nap(30);
	linger_reset(fd);
	close(fd);
}

PAIR(poll_errors, 0);

SERVER(poll_errors)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	static volatile uintptr_t low = 64;
	static volatile nfds_t lots = 1u << 30;
	fd_set set;
	struct timeval bad = { .tv_usec = -1 }, none = { 0 };
	R(poll((struct pollfd *)low, 1, 0));
	R(poll(&p, lots, 0));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	FD_SET(40, &set);
	R(select(41, &set, NULL, NULL, &none));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	R(select(-1, &set, NULL, NULL, &none));
	R(select(fd + 1, &set, NULL, NULL, &bad));
	R(select(fd + 1, (fd_set *)low, NULL, NULL, &none));
	R(select(0, NULL, NULL, NULL, &none));
	post(0);
}

CLIENT(poll_errors)
{
	(void)fd;
	await(0);
}

PAIR(poll_select, 0);

SERVER(poll_select)
{
	fd_set in, out, except;
	int pipes[2];
	char b[8];
	MUST(!pipe(pipes));
	int top = (fd > pipes[1] ? fd : pipes[1]) + 1;
	for (int round = 0; round < 3; round++) {
		struct timeval t = { .tv_usec = round ? 0 : 50000 };
		FD_ZERO(&in);
		FD_ZERO(&out);
		FD_ZERO(&except);
		FD_SET(fd, &in);
		FD_SET(pipes[0], &in);
		FD_SET(fd, &except);
		if (round) {
			FD_SET(fd, &out);
			FD_SET(pipes[1], &out);
		}
		if (round == 2) {
			MUST(write(pipes[1], "x", 1) == 1);
			post(0);
			MUST(wait_queued(fd, 3));
		}
		R(select(top, &in, &out, &except, &t));
		say("in %d %d out %d %d except %d time left %d", FD_ISSET(fd, &in) != 0,
		    FD_ISSET(pipes[0], &in) != 0, FD_ISSET(fd, &out) != 0,
		    FD_ISSET(pipes[1], &out) != 0, FD_ISSET(fd, &except) != 0,
		    t.tv_sec || t.tv_usec);
	}
	R(recv(fd, b, sizeof(b), 0));
	/* A wait that data ends leaves the rest of the time. */
	struct timeval t = { .tv_sec = 8 };
	struct timespec ts = { .tv_sec = 8 };
	FD_ZERO(&in);
	FD_SET(fd, &in);
	post(1);
	R(select(fd + 1, &in, NULL, NULL, &t));
	YES(t.tv_sec < 8 && t.tv_sec > 3);
	R(recv(fd, b, sizeof(b), 0));
	post(2);
	R(pselect(fd + 1, &in, NULL, NULL, &ts, NULL));
	YES(ts.tv_sec == 8 && ts.tv_nsec == 0);
	R(recv(fd, b, sizeof(b), 0));
	post(3);
	await(4);
	R(select(fd + 1, &in, NULL, NULL, NULL));
	R(recv(fd, b, sizeof(b), 0));
}

CLIENT(poll_select)
{
	await(0);
	send_all(fd, "abc", 3);
	for (int k = 1; k < 3; k++) {
		await(k);
		nap(30);
		send_all(fd, "d", 1);
	}
	await(3);
	shutdown(fd, SHUT_WR);
	post(4);
}

/* The application's descriptors stay low enough for select. */
SOLO(poll_low_numbers, 0)
{
	int sv[2];
	self_pair(sv);
	int fd = open("/dev/null", O_RDONLY);
	say("numbers %d %d then %d", sv[0], sv[1], fd);
	int high = fcntl(sv[0], F_DUPFD, 1000);
	say("high %d", high);
	fd_set set;
	FD_ZERO(&set);
	FD_SET(high, &set);
	R(send(sv[1], "x", 1, 0));
	R(select(high + 1, &set, NULL, NULL, NULL));
	char c;
	R(recv(high, &c, 1, 0));
}

/* Many connections in one poll, one of them ready at a time. */
SOLO(poll_many, 0)
{
	enum { N = 100 };
	static int pairs[N][2];
	static struct pollfd p[N];
	for (int i = 0; i < N; i++)
		self_pair_cold(pairs[i]);
	warm_up_many(pairs, N);
	int wrong = 0;
	for (int i = 0; i < N; i++)
		p[i] = (struct pollfd){ .fd = pairs[i][1], .events = POLLIN };
	for (int i = 0; i < N; i++) {
		char c;
		int k = i * 37 % N;
		if (poll(p, N, 0) != 0)
			wrong++;
		MUST(send(pairs[k][0], "x", 1, 0) == 1);
		int n = poll(p, N, 5000);
		if (n != 1 || p[k].revents != POLLIN)
			wrong++;
		MUST(recv(pairs[k][1], &c, 1, 0) == 1);
	}
	say("wrong %d", wrong);
}
