/* SPDX-License-Identifier: BSD-2-Clause */

/* Several threads on one connection: one blocks, another one acts. */

#include <sys/syscall.h>
#include <sys/wait.h>

#include "harness.h"

enum what { RECV, PEEK, WAITALL, POLL, SEND, ACCEPT, SELECT };

static void blocked(struct worker *w)
{
	static char big[1 << 20];
	char b[64];
	struct pollfd p = { .fd = w->fd, .events = POLLIN | POLLRDHUP };
	errno = 0;
	switch (w->arg) {
	case RECV:
		w->result = recv(w->fd, b, sizeof(b), 0);
		break;
	case PEEK:
		w->result = recv(w->fd, b, sizeof(b), MSG_PEEK);
		break;
	case WAITALL:
		w->result = recv(w->fd, b, sizeof(b), MSG_WAITALL);
		break;
	case POLL:
		w->result = poll(&p, 1, 5000);
		break;
	case SEND:
		do
			w->result = send(w->fd, big, sizeof(big), MSG_NOSIGNAL);
		while (w->result > 0);
		break;
	case ACCEPT:
		w->result = accept(w->fd, NULL, NULL);
		break;
	}
	report("blocked call", w->result);
	if (w->arg == POLL)
		say_events("revents", (unsigned short)p.revents);
}

static void start_blocked(struct worker *w, int fd, enum what what)
{
	*w = (struct worker){ .run = blocked, .fd = fd, .arg = what, .actor = 3, .name = "thread" };
	worker_start(w);
	wait_asleep(w->tid);
	nap(20);
}

static void shutdown_blocked(int fd, enum what what, int how)
{
	struct worker w;
	start_blocked(&w, fd, what);
	R(shutdown(fd, how));
	worker_join(&w);
	post(0);
}

#define SHUT_TEST(name, flags, what, how)                                                          \
	PAIR(name, flags);                                                                         \
	SERVER(name)                                                                               \
	{                                                                                          \
		shutdown_blocked(fd, what, how);                                                   \
	}                                                                                          \
	CLIENT(name)                                                                               \
	{                                                                                          \
		(void)fd;                                                                          \
		await(0);                                                                          \
	}

SHUT_TEST(threads_shut_rd_in_recv, 0, RECV, SHUT_RD)
SHUT_TEST(threads_shut_rdwr_in_recv, 0, RECV, SHUT_RDWR)
SHUT_TEST(threads_shut_rd_in_waitall, 0, WAITALL, SHUT_RD)
SHUT_TEST(threads_shut_rd_in_peek, 0, PEEK, SHUT_RD)
SHUT_TEST(threads_shut_rd_in_poll, 0, POLL, SHUT_RD)
SHUT_TEST(threads_shut_rdwr_in_poll, 0, POLL, SHUT_RDWR)
SHUT_TEST(threads_shut_wr_in_send, SMALL_BUF, SEND, SHUT_WR)
SHUT_TEST(threads_shut_rdwr_in_send, SMALL_BUF, SEND, SHUT_RDWR)

SOLO(threads_shutdown_listener, MUST_BE_TCP)
{
	uint16_t port;
	struct worker w;
	int listener = listen_on(AF_INET, false, &port);
	start_blocked(&w, listener, ACCEPT);
	R(shutdown(listener, SHUT_RDWR));
	worker_join(&w);
}

/* A number closed under a blocked reader: Linux lets the reader finish. */
PAIR(threads_close_in_recv, 0);

SERVER(threads_close_in_recv)
{
	struct worker w;
	start_blocked(&w, fd, RECV);
	R(close(fd));
	post(0);
	worker_join(&w);
	post(1);
}

CLIENT(threads_close_in_recv)
{
	char c;
	await(0);
	R(recv(fd, &c, 1, MSG_DONTWAIT));
	R(send(fd, "abc", 3, 0));
	await(1);
	R(recv(fd, &c, 1, 0));
}

/* Reader and writer on one connection, on both ends. */
struct stream {
	uint32_t seed;
	size_t size;
};

static void writer(struct worker *w)
{
	struct stream *s = w->data;
	pattern_send(w->fd, s->seed, 0, s->size, (size_t)w->arg);
}

static void reader(struct worker *w)
{
	struct stream *s = w->data;
	w->result = pattern_recv(w->fd, s->seed, 0, s->size, (size_t)w->arg);
}

static void duplex(int fd, uint32_t out, uint32_t in, size_t size, size_t chunk)
{
	struct stream so = { out, size }, si = { in, size };
	struct worker w = { .run = writer, .fd = fd, .data = &so, .arg = (long)chunk };
	struct worker r = { .run = reader, .fd = fd, .data = &si, .arg = (long)chunk * 3 };
	worker_start(&w);
	worker_start(&r);
	worker_join(&w);
	worker_join(&r);
	say("intact %ld", r.result);
}

PAIR(threads_duplex, 0);
SERVER(threads_duplex)
{
	duplex(fd, 1, 2, 24 << 20, 50000);
}
CLIENT(threads_duplex)
{
	duplex(fd, 2, 1, 24 << 20, 30000);
}

PAIR(threads_duplex_cold, COLD);
SERVER(threads_duplex_cold)
{
	duplex(fd, 1, 2, 4 << 20, 1000);
}
CLIENT(threads_duplex_cold)
{
	duplex(fd, 2, 1, 4 << 20, 700);
}

/* Several writers: records of one send each are not torn; several readers: nothing is lost. */
enum { WRITERS = 4, RECORDS = 2000, RECORD = 64 };

static void record_writer(struct worker *w)
{
	char b[RECORD];
	memset(b, (int)w->arg, sizeof(b));
	for (int i = 0; i < RECORDS; i++)
		if (send(w->fd, b, sizeof(b), 0) != sizeof(b))
			w->result++;
}

PAIR(threads_many_writers, 0);

SERVER(threads_many_writers)
{
	int count[WRITERS] = { 0 }, torn = 0;
	for (int i = 0; i < WRITERS * RECORDS; i++) {
		char b[RECORD];
		recv_all(fd, b, sizeof(b));
		if (memcmp(b, b + 1, sizeof(b) - 1) || b[0] < 0 || b[0] >= WRITERS)
			torn++;
		else
			count[(int)b[0]]++;
	}
	for (int i = 0; i < WRITERS; i++)
		say("records %d", count[i]);
	say("torn %d", torn);
}

CLIENT(threads_many_writers)
{
	struct worker w[WRITERS];
	memset(w, 0, sizeof(w));
	for (int i = 0; i < WRITERS; i++) {
		w[i] = (struct worker){ .run = record_writer, .fd = fd, .arg = i };
		worker_start(&w[i]);
	}
	for (int i = 0; i < WRITERS; i++) {
		worker_join(&w[i]);
		say("short sends %ld", w[i].result);
	}
}

static void summing_reader(struct worker *w)
{
	unsigned char b[100];
	ssize_t n;
	while ((n = recv(w->fd, b, sizeof(b), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			w->result += b[i];
		w->arg += n;
	}
}

PAIR(threads_many_readers, 0);

SERVER(threads_many_readers)
{
	struct worker w[WRITERS];
	long sum = 0, size = 0;
	memset(w, 0, sizeof(w));
	for (int i = 0; i < WRITERS; i++) {
		w[i] = (struct worker){ .run = summing_reader, .fd = fd };
		worker_start(&w[i]);
	}
	for (int i = 0; i < WRITERS; i++) {
		worker_join(&w[i]);
		sum += w[i].result;
		size += w[i].arg;
	}
	say("bytes %ld sum %ld", size, sum);
}

CLIENT(threads_many_readers)
{
	pattern_send(fd, 1, 0, 1 << 20, 777);
	shutdown(fd, SHUT_WR);
}

/* A thread that is cancelled in a blocked call leaves the connection in order. */
static void cancelled(struct worker *w)
{
	char b[8];
	if (w->arg == RECV)
		recv(w->fd, b, sizeof(b), 0);
	else
		wait_events(w->fd, POLLIN, -1);
	say("not reached");
}

PAIR(threads_cancel, 0);

SERVER(threads_cancel)
{
	char b[8];
	for (int i = 0; i < 2; i++) {
		struct worker w = { .run = cancelled, .fd = fd, .arg = i ? POLL : RECV };
		worker_start(&w);
		wait_asleep(w.tid);
		nap(20);
		R(pthread_cancel(w.thread));
		void *value = NULL;
		R(pthread_join(w.thread, &value));
		YES(value == PTHREAD_CANCELED);
	}
	post(0);
	R(recv(fd, b, sizeof(b), 0));
	R(send(fd, "back", 4, 0));
}

CLIENT(threads_cancel)
{
	char b[8];
	await(0);
	send_all(fd, "abc", 3);
	R(recv(fd, b, sizeof(b), 0));
}

/* A process ends while threads of it wait: at once, and with its own exit code. */
static void sit(struct worker *w)
{
	char b[8];
	struct pollfd p = { .fd = w->fd, .events = POLLIN };
	if (w->arg % 2)
		recv(w->fd, b, sizeof(b), 0);
	else
		poll(&p, 1, -1);
}

static void exit_with_waiters(int way)
{
	static int pairs[8][2];
	static struct worker w[8];
	for (int i = 0; i < 8; i++) {
		self_pair(pairs[i]);
		w[i] = (struct worker){ .run = sit, .fd = pairs[i][1], .arg = i };
		worker_start(&w[i]);
	}
	wait_asleep(w[7].tid);
	switch (way) {
	case 0:
		exit(40);
	case 1:
		_exit(41);
	case 2:
		quick_exit(42);
	case 3:
		syscall(SYS_exit_group, 43);
		break;
	case 4:
		abort();
	case 5:
		/* Only the first thread ends; the others live until the process is killed. */
		alarm(1);
		pthread_exit(NULL);
	}
}

SOLO(threads_exit_while_waiting, SOME_TCP)
{
	for (int way = 0; way < 6; way++) {
		long start = now_ms();
		pid_t child = fork();
		if (!child) {
			signal(SIGABRT, SIG_DFL);
			exit_with_waiters(way);
		}
		char text[32];
		snprintf(text, sizeof(text), "way %d", way);
		say_status(text, reap(child));
		YES(now_ms() - start < 4000);
	}
}

/* Each thread with its own connection. */
static void own_pair(struct worker *w)
{
	int sv[2];
	self_pair(sv);
	bool ok = true;
	for (size_t i = 0; i < 200; i++) {
		pattern_send(sv[0], (uint32_t)w->arg, i * 500, 500, 500);
		ok = ok && pattern_recv(sv[1], (uint32_t)w->arg, i * 500, 500, 500);
	}
	w->result = ok;
	close(sv[0]);
	close(sv[1]);
}

SOLO(threads_own_connections, 0)
{
	struct worker w[8];
	for (int i = 0; i < 8; i++) {
		w[i] = (struct worker){ .run = own_pair, .arg = i };
		worker_start(&w[i]);
	}
	for (int i = 0; i < 8; i++) {
		worker_join(&w[i]);
		say("intact %ld", w[i].result);
	}
}

/* A number is closed and used again while another thread reads it, over and over: no crash, no mix-up. */
static void racing_reader(struct worker *w)
{
	char b[64];
	while (!__atomic_load_n(&w->arg, __ATOMIC_RELAXED)) {
		ssize_t n = recv(w->fd, b, sizeof(b), MSG_DONTWAIT);
		for (ssize_t i = 0; i < n; i++)
			if (b[i] != 'x')
				w->result++;
	}
}

SOLO(threads_close_race, SOME_TCP)
{
	int sv[2];
	self_pair(sv);
	struct worker w = { .run = racing_reader, .fd = sv[1] };
	worker_start(&w);
	for (int i = 0; i < 100; i++) {
		int next[2];
		send_all(sv[0], "xxxx", 4);
		if (i % 10)
			self_pair_cold(next);
		else
			self_pair(next);
		close(sv[0]);
		MUST(dup2(next[1], sv[1]) == sv[1]);
		close(next[1]);
		sv[0] = next[0];
	}
	__atomic_store_n(&w.arg, 1, __ATOMIC_RELAXED);
	worker_join(&w);
	say("wrong bytes %ld", w.result);
}
