/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Changes of carrier while data flows: many connections, most of them short, with both directions busy at
 * once, by every form of call and every size. Each byte is checked at its offset.
 *
 * What a connection does is its plan, drawn from the seed and the client's port, so that both ends know it
 * (they may be in different processes): how much each end sends, and whether an end leaves early, by
 * closing when it has sent or received so much. If neither does, each end must receive exactly what the
 * other one's plan says, then end of file.
 */

#include <sched.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "common.h"

enum { CALL_MAX = 256 * 1024 };

struct plan {
	uint64_t stream[2]; /* [0] from the client, [1] from the server */
	uint64_t total[2];
	bool leaves[2];	       /* the client, the server: closes with everything as it is ... */
	uint64_t leaves_at[2]; /* ... once it has received so many bytes */
	bool closes[2];	       /* at the end: without a shutdown before */
	unsigned slow_calls;   /* begins with so many small calls and pauses: time for the change */
};

struct end {
	int fd, side; /* 0: client */
	struct plan plan;
	struct rng write_rng, read_rng;
	_Atomic uint64_t sent, received;
	_Atomic bool left; /* this end has gone early */
	char *write_buffer, *read_buffer;
};

static _Atomic uint64_t connections, bytes, early;

static struct plan plan_for(uint16_t port)
{
	struct rng r = rng_from(options.seed, port);
	struct plan p = { 0 };
	/* Most connections are short: the change of carrier is in their middle. */
	size_t most = rng_one_in(&r, 20) ? 4 << 20 : rng_one_in(&r, 3) ? 256 << 10 : 8 << 10;
	for (int i = 0; i < 2; i++) {
		p.stream[i] = rng_next(&r);
		p.total[i] = rng_one_in(&r, 10) ? 0 : rng_size(&r, most);
		p.closes[i] = rng_one_in(&r, 2);
	}
	p.slow_calls = rng_one_in(&r, 2) ? 0 : (unsigned)rng_below(&r, 50);
	for (int i = 0; i < 2; i++) {
		p.leaves[i] = rng_one_in(&r, 8);
		p.leaves_at[i] = rng_below(&r, p.total[!i] + 1);
	}
	return p;
}

/* The peer may be gone, by its plan. */
static bool excused(const struct end *e, int err)
{
	return (err == EPIPE || err == ECONNRESET) &&
	       (e->plan.leaves[0] || e->plan.leaves[1] || atomic_load(&e->left));
}

static void pause_at_random(struct rng *r)
{
	if (rng_one_in(r, 8))
		for (uint64_t n = rng_below(r, 4); n--;)
			sched_yield();
}

static int pieces(struct rng *r, struct iovec *v, char *data, size_t size)
{
	int n = 1 + (int)rng_below(r, 6);
	size_t at = 0;
	for (int i = 0; i < n; i++) {
		size_t part = i == n - 1 ? size - at : rng_below(r, size - at + 1);
		v[i] = (struct iovec){ data + at, part };
		at += part;
	}
	return n;
}

static ssize_t write_somehow(struct end *e, char *data, size_t size)
{
	struct rng *r = &e->write_rng;
	struct iovec v[8];
	struct msghdr m = { .msg_iov = v };
	switch (rng_below(r, 6)) {
	case 0:
		return write(e->fd, data, size);
	case 1:
		return writev(e->fd, v, pieces(r, v, data, size));
	case 2:
		m.msg_iovlen = (size_t)pieces(r, v, data, size);
		return sendmsg(e->fd, &m, MSG_NOSIGNAL);
	case 3:
		return send(e->fd, data, size, MSG_DONTWAIT);
	case 4:
		return send(e->fd, data, size, MSG_MORE);
	default:
		return send(e->fd, data, size, 0);
	}
}

static void wait_for(struct end *e, short events)
{
	struct pollfd p = { .fd = e->fd, .events = events };
	int n = poll(&p, 1, -1);
	if (n < 0 && errno != EINTR)
		fail("poll: %s", strerror(errno));
}

static void *writer(void *arg)
{
	struct end *e = arg;
	struct rng *r = &e->write_rng;
	uint64_t total = e->plan.total[e->side], stream = e->plan.stream[e->side], sent = 0;
	unsigned calls = 0;
	while (sent < total && !atomic_load(&e->left)) {
		size_t size = rng_size(r, calls < e->plan.slow_calls ? 500 : CALL_MAX);
		if (size > total - sent)
			size = (size_t)(total - sent);
		if (calls++ < e->plan.slow_calls)
			usleep((useconds_t)rng_below(r, 300));
		content_fill(e->write_buffer, stream, sent, size);
		ssize_t n = write_somehow(e, e->write_buffer, size);
		if (n < 0 && errno == EAGAIN) {
			wait_for(e, POLLOUT);
			continue;
		}
		if (n < 0 && excused(e, errno))
			return NULL;
		if (n <= 0 || (size_t)n > size)
			fail("write of %zu at %llu of %llu: %zd %s", size, (unsigned long long)sent,
			     (unsigned long long)total, n, strerror(errno));
		sent += (uint64_t)n;
		atomic_store(&e->sent, sent);
		progress();
		pause_at_random(r);
	}
	if (atomic_load(&e->left))
		return NULL;
	/* The reading half may still be busy: a close comes later, after both (see end_run). */
	if (shutdown(e->fd, SHUT_WR) < 0 && errno != ENOTCONN)
		fail("shutdown: %s", strerror(errno));
	return NULL;
}

static void check(struct end *e, const char *how, const char *data, uint64_t at, size_t size)
{
	uint64_t stream = e->plan.stream[!e->side], total = e->plan.total[!e->side];
	if (at + size > total)
		fail("%s: %zu bytes at %llu, but only %llu were sent", how, size,
		     (unsigned long long)at, (unsigned long long)total);
	size_t good = content_check(data, stream, at, size);
	if (good == size)
		return;
	/* Where does it come from? Tells a doubled, a lost and a garbled byte apart. */
	unsigned char want;
	content_fill(&want, stream, at + good, 1);
	long shift = 0;
	for (long d = -300000; d <= 300000 && size - good >= 8; d++)
		if ((long)(at + good) + d >= 0 &&
		    content_check(data + good, stream, (uint64_t)((long)(at + good) + d),
				  size - good < 16 ? size - good : 16) ==
			    (size - good < 16 ? size - good : 16)) {
			shift = d;
			break;
		}
	fail("%s: wrong byte at %llu (%zu into a call of %zu, total %llu, side %d): %02x not %02x; "
	     "fits at distance %ld",
	     how, (unsigned long long)(at + good), good, size, (unsigned long long)total, e->side,
	     (unsigned char)data[good], want, shift);
}

static ssize_t read_somehow(struct end *e, char *data, size_t size, uint64_t at)
{
	struct rng *r = &e->read_rng;
	struct iovec v[8];
	struct msghdr m = { .msg_iov = v };
	uint64_t left = e->plan.total[!e->side] - at;
	ssize_t n;
	switch (rng_below(r, 8)) {
	case 0:
		return read(e->fd, data, size);
	case 1:
		return readv(e->fd, v, pieces(r, v, data, size));
	case 2:
		m.msg_iovlen = (size_t)pieces(r, v, data, size);
		return recvmsg(e->fd, &m, 0);
	case 3:
		return recv(e->fd, data, size, MSG_DONTWAIT);
	case 4:
		n = recv(e->fd, data, size, MSG_PEEK | (rng_one_in(r, 2) ? MSG_DONTWAIT : 0));
		if (n <= 0)
			return n;
		check(e, "peek", data, at, (size_t)n);
		memset(data, 0, (size_t)n);
		/* What was peeked is there, at least. */
		size = (size_t)n;
		n = recv(e->fd, data, size, MSG_DONTWAIT);
		if (n != (ssize_t)size)
			fail("peeked %zu, then received %zd %s", size, n, strerror(errno));
		return n;
	case 5:
		if (left && size > left)
			size = (size_t)left;
		n = recv(e->fd, data, size, MSG_WAITALL);
		if (n >= 0 && (size_t)n < size && !(e->plan.leaves[0] || e->plan.leaves[1]) && left)
			fail("MSG_WAITALL for %zu at %llu, %llu left: %zd", size,
			     (unsigned long long)at, (unsigned long long)left, n);
		return n;
	default:
		return recv(e->fd, data, size, 0);
	}
}

static void *reader(void *arg)
{
	struct end *e = arg;
	struct rng *r = &e->read_rng;
	uint64_t got = 0, total = e->plan.total[!e->side];
	bool leaves = e->plan.leaves[e->side];
	for (;;) {
		if (leaves && got >= e->plan.leaves_at[e->side]) {
			atomic_store(&e->left, true);
			/* Wakes the writer, and tells the peer what a close would. */
			shutdown(e->fd, SHUT_RDWR);
			atomic_fetch_add(&early, 1);
			return NULL;
		}
		size_t size = rng_size(r, CALL_MAX);
		ssize_t n = read_somehow(e, e->read_buffer, size, got);
		if (n < 0 && errno == EAGAIN) {
			wait_for(e, POLLIN);
			continue;
		}
		if (n < 0 && excused(e, errno))
			return NULL;
		if (n < 0)
			fail("read at %llu of %llu: %s", (unsigned long long)got,
			     (unsigned long long)total, strerror(errno));
		if (n == 0)
			break;
		check(e, "read", e->read_buffer, got, (size_t)n);
		got += (uint64_t)n;
		atomic_store(&e->received, got);
		progress();
		pause_at_random(r);
	}
	if (got != total && !e->plan.leaves[!e->side] && !leaves)
		fail("end of file at %llu of %llu, side %d", (unsigned long long)got,
		     (unsigned long long)total, e->side);
	return NULL;
}

/* Plays one end of a connection to its end and closes it. */
static void end_run(int fd, int side)
{
	struct end e = { .fd = fd, .side = side };
	uint16_t port = side ? remote_port(fd) : local_port(fd);
	if (!port) { /* reset before we looked */
		close(fd);
		return;
	}
	uint64_t number = atomic_fetch_add(&connections, 1);
	e.plan = plan_for(port);
	e.write_rng = rng_from(options.seed, number * 4 + (uint64_t)side);
	e.read_rng = rng_from(options.seed, number * 4 + 2 + (uint64_t)side);
	e.write_buffer = malloc(CALL_MAX);
	e.read_buffer = malloc(CALL_MAX);
	if (!e.write_buffer || !e.read_buffer)
		fail("no memory");
	pthread_t t = thread_start(writer, &e);
	reader(&e);
	pthread_join(t, NULL);
	atomic_fetch_add(&bytes, e.sent);
	if (e.plan.closes[side])
		shutdown(fd, SHUT_RDWR);
	if (close(fd) < 0)
		fail("close: %s", strerror(errno));
	free(e.write_buffer);
	free(e.read_buffer);
	progress();
}

static void *serve(void *arg)
{
	end_run((int)(intptr_t)arg, 1);
	return NULL;
}

static _Atomic int serving;

static void *serve_detached(void *arg)
{
	serve(arg);
	atomic_fetch_sub(&serving, 1);
	return NULL;
}

static int listener;
static uint16_t port;

static void *acceptor(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return NULL; /* shut down */
		atomic_fetch_add(&serving, 1);
		pthread_detach(thread_start(serve_detached, (void *)(intptr_t)fd));
	}
}

static void *lane(void *arg)
{
	(void)arg;
	while (!time_is_up())
		end_run(connect_port(port), 0);
	return NULL;
}

static void tell(void)
{
	fprintf(stderr, "connections %llu bytes %llu\n", (unsigned long long)connections,
		(unsigned long long)bytes);
}

static void run_lanes(void)
{
	pthread_t t[64];
	for (int i = 0; i < options.connections; i++)
		t[i] = thread_start(lane, NULL);
	for (int i = 0; i < options.connections; i++)
		pthread_join(t[i], NULL);
}

static void wait_served(void)
{
	while (atomic_load(&serving))
		usleep(1000);
}

int main(int argc, char **argv)
{
	options_read(argc, argv, 4);
	if (options.connections > 64)
		options.connections = 64;
	listener = listen_any_port(&port);
	pid_t child = 0;
	if (options.processes) {
		child = fork();
		if (!child) {
			watchdog_start(20, tell);
			close(listener);
			run_lanes();
			exit(0);
		}
	}
	watchdog_start(20, tell);
	pthread_t t = thread_start(acceptor, NULL);
	if (options.processes) {
		int status = 0;
		waitpid(child, &status, 0);
		if (status)
			fail("the clients' process ended with status 0x%x", status);
	} else {
		run_lanes();
	}
	wait_served();
	shutdown(listener, SHUT_RDWR);
	pthread_join(t, NULL);
	wait_served();
	printf("ends %llu early %llu bytes %llu\n", (unsigned long long)connections,
	       (unsigned long long)early, (unsigned long long)bytes);
	return 0;
}
