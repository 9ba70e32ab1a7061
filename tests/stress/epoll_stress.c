/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * No lost wake-up: many connections in epoll sets, level, edge and one-shot, with several threads waiting
 * in each set while others take members out and put them back, change their mode, move them to another set
 * or replace the connection. An echo side sends back what it gets, an asking side always has exactly one
 * message under way on every connection; a connection without an answer for 5 s is a failure.
 *
 * With --processes the two sides are in processes of their own.
 */

#include <sched.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "common.h"

enum { SETS = 2, WAITERS = 2, MESSAGE_MAX = 100000, BUFFER = 16384 };

/* One end of a connection. Whoever handles or changes it holds the lock. */
struct member {
	pthread_mutex_t lock;
	int fd, set, index;
	unsigned mode; /* EPOLLET, EPOLLONESHOT */
	bool wants_out;
	struct rng rng;
	/* asking side: one message at a time */
	uint64_t stream, at; /* content */
	size_t to_send, to_receive;
	double since;
	/* echo side: what could not be sent back yet */
	size_t pending, pending_at;
	char *data;
};

struct side {
	bool asks;
	int sets[SETS];
	struct member *members;
};

static struct side echo_side = { false, { 0 }, NULL }, ask_side = { true, { 0 }, NULL };
static _Atomic uint64_t answers, changes, replaced;
static _Atomic bool over;
static int listener;
static uint16_t port;

static void arm(struct side *s, struct member *m, int op)
{
	struct epoll_event e = { .events = EPOLLIN | m->mode | (m->wants_out ? EPOLLOUT : 0),
				 .data.u32 = (uint32_t)m->index };
	if (epoll_ctl(s->sets[m->set], op, m->fd, &e) < 0)
		fail("epoll_ctl %d: %s", op, strerror(errno));
}

static void want_out(struct side *s, struct member *m, bool want)
{
	if (m->wants_out == want)
		return;
	m->wants_out = want;
	if (!(m->mode & EPOLLONESHOT)) /* else it is armed when we are done */
		arm(s, m, EPOLL_CTL_MOD);
}

static void ask_next(struct member *m)
{
	m->to_send = m->to_receive = rng_size(&m->rng, MESSAGE_MAX);
	m->since = now();
}

static void ask_send(struct side *s, struct member *m)
{
	char b[BUFFER];
	while (m->to_send) {
		size_t n = m->to_send < sizeof(b) ? m->to_send : sizeof(b);
		content_fill(b, m->stream, m->at + m->to_receive - m->to_send, n);
		ssize_t r = send(m->fd, b, n, MSG_DONTWAIT);
		if (r < 0 && errno == EAGAIN)
			break;
		if (r <= 0)
			fail("send: %s", strerror(errno));
		m->to_send -= (size_t)r;
	}
	want_out(s, m, m->to_send != 0);
}

/* The message's bytes are numbered from `at`; to_receive counts down while they come back. */
static void ask_handle(struct side *s, struct member *m)
{
	char b[BUFFER];
	if (m->to_send)
		ask_send(s, m);
	for (;;) {
		ssize_t n = recv(m->fd, b, sizeof(b), MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0)
			fail("asking side: recv %zd %s", n, strerror(errno));
		if ((size_t)n > m->to_receive - m->to_send)
			fail("more came back than was sent");
		size_t good = content_check(b, m->stream, m->at, (size_t)n);
		if (good != (size_t)n)
			fail("wrong byte at %llu", (unsigned long long)(m->at + good));
		m->at += (size_t)n;
		m->to_receive -= (size_t)n;
		m->since = now();
		if (m->to_receive)
			continue;
		atomic_fetch_add(&answers, 1);
		ask_next(m);
		ask_send(s, m);
	}
}

/* Returns false at end of file. */
static bool echo_handle(struct side *s, struct member *m)
{
	for (;;) {
		if (!m->pending) {
			ssize_t n = recv(m->fd, m->data, BUFFER, MSG_DONTWAIT);
			if (n < 0 && errno == EAGAIN)
				break;
			if (n == 0 || (n < 0 && errno == ECONNRESET))
				return false;
			if (n < 0)
				fail("echo side: recv: %s", strerror(errno));
			m->pending = (size_t)n;
			m->pending_at = 0;
		}
		ssize_t n = send(m->fd, m->data + m->pending_at, m->pending, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return false;
		if (n <= 0)
			fail("echo side: send: %s", strerror(errno));
		m->pending_at += (size_t)n;
		m->pending -= (size_t)n;
	}
	want_out(s, m, m->pending != 0);
	return true;
}

/* A new connection takes the place of a finished one on the echo side. */
static void echo_replace(struct side *s, struct member *m)
{
	close(m->fd);
	m->fd = accept_from(listener);
	m->pending = 0;
	m->wants_out = false;
	arm(s, m, EPOLL_CTL_ADD);
}

static void handle(struct side *s, struct member *m)
{
	bool armed = false;
	pthread_mutex_lock(&m->lock);
	if (s->asks) {
		ask_handle(s, m);
	} else if (!echo_handle(s, m)) {
		echo_replace(s, m);
		armed = true;
	}
	if (m->mode & EPOLLONESHOT && !armed)
		arm(s, m, EPOLL_CTL_MOD);
	pthread_mutex_unlock(&m->lock);
	progress();
}

struct waiter {
	struct side *side;
	int set;
};

static void *waiter(void *arg)
{
	struct waiter *w = arg;
	struct epoll_event e[8];
	struct rng r = rng_from(options.seed, (uintptr_t)arg);
	while (!atomic_load(&over)) {
		int most = 1 + (int)rng_below(&r, 8);
		int n = epoll_wait(w->side->sets[w->set], e, most, 200);
		if (n < 0 && errno != EINTR)
			fail("epoll_wait: %s", strerror(errno));
		for (int i = 0; i < n; i++)
			handle(w->side, &w->side->members[e[i].data.u32]);
	}
	return NULL;
}

static unsigned random_mode(struct rng *r)
{
	static const unsigned modes[] = { 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT };
	return modes[rng_below(r, 4)];
}

static void ask_begin(struct side *s, struct member *m)
{
	arm(s, m, EPOLL_CTL_ADD);
	ask_send(s, m);
	if (m->mode & EPOLLONESHOT)
		arm(s, m, EPOLL_CTL_MOD);
	m->since = now();
}

static void ask_reconnect(struct side *s, struct member *m)
{
	/* The old answer is given up, and its bytes with it. */
	close(m->fd);
	m->fd = connect_port(port);
	m->stream = rng_next(&m->rng);
	m->at = 0;
	m->wants_out = false;
	ask_next(m);
	ask_begin(s, m);
	atomic_fetch_add(&replaced, 1);
}

/* Takes members out of their sets, puts them back in another way, and so on. */
static void *changer(void *arg)
{
	struct side *s = arg;
	struct rng r = rng_from(options.seed, s->asks ? 77 : 78);
	while (!atomic_load(&over)) {
		struct member *m = &s->members[rng_below(&r, (uint64_t)options.connections)];
		pthread_mutex_lock(&m->lock);
		switch (rng_below(&r, 8)) {
		case 0: /* away for a while */
		case 1:
			arm(s, m, EPOLL_CTL_DEL);
			for (uint64_t n = rng_below(&r, 3); n--;)
				sched_yield();
			m->mode = random_mode(&r);
			arm(s, m, EPOLL_CTL_ADD);
			break;
		case 2: /* to another set */
			arm(s, m, EPOLL_CTL_DEL);
			m->set = (m->set + 1) % SETS;
			arm(s, m, EPOLL_CTL_ADD);
			break;
		case 3: /* in two sets at once for a moment */
			m->set = (m->set + 1) % SETS;
			arm(s, m, EPOLL_CTL_ADD);
			m->set = (m->set + 1) % SETS;
			arm(s, m, EPOLL_CTL_DEL);
			m->set = (m->set + 1) % SETS;
			break;
		case 4:
		case 5:
			m->mode = random_mode(&r);
			arm(s, m, EPOLL_CTL_MOD);
			break;
		case 6: /* deaf, then not: what came meanwhile must be told */
			epoll_ctl(s->sets[m->set], EPOLL_CTL_MOD, m->fd,
				  &(struct epoll_event){ .data.u32 = (uint32_t)m->index });
			sched_yield();
			arm(s, m, EPOLL_CTL_MOD);
			break;
		case 7:
			if (s->asks && rng_one_in(&r, 10))
				ask_reconnect(s, m);
			break;
		}
		pthread_mutex_unlock(&m->lock);
		atomic_fetch_add(&changes, 1);
		if (rng_one_in(&r, 4))
			usleep((useconds_t)rng_below(&r, 300));
	}
	return NULL;
}

static void side_open(struct side *s)
{
	struct rng r = rng_from(options.seed, s->asks);
	s->members = calloc((size_t)options.connections, sizeof(*s->members));
	for (int i = 0; i < SETS; i++)
		s->sets[i] = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < options.connections; i++) {
		struct member *m = &s->members[i];
		pthread_mutex_init(&m->lock, NULL);
		m->index = i;
		m->set = (int)rng_below(&r, SETS);
		m->mode = random_mode(&r);
		m->rng = rng_from(rng_next(&r), (uint64_t)i);
		m->stream = rng_next(&r);
		m->data = malloc(BUFFER);
		m->since = now();
	}
}

/* Returns the index of a connection that waits for an answer too long, or -1. */
static int stalled(const struct side *s, double limit)
{
	for (int i = 0; i < options.connections; i++) {
		struct member *m = &s->members[i];
		/* A changer may hold the lock while it waits for a connection to be accepted. */
		if (pthread_mutex_trylock(&m->lock))
			continue;
		bool late = now() - m->since > limit;
		pthread_mutex_unlock(&m->lock);
		if (late)
			return i;
	}
	return -1;
}

static void side_threads(struct side *s, pthread_t *t, int *n)
{
	static struct waiter waiters[2][SETS * WAITERS];
	for (int i = 0; i < SETS * WAITERS; i++) {
		struct waiter *w = &waiters[s->asks][i];
		*w = (struct waiter){ s, i % SETS };
		t[(*n)++] = thread_start(waiter, w);
	}
	t[(*n)++] = thread_start(changer, s);
}

static void echo_open(void)
{
	side_open(&echo_side);
	for (int i = 0; i < options.connections; i++) {
		echo_side.members[i].fd = accept_from(listener);
		arm(&echo_side, &echo_side.members[i], EPOLL_CTL_ADD);
	}
}

static void ask_open(void)
{
	side_open(&ask_side);
	for (int i = 0; i < options.connections; i++) {
		struct member *m = &ask_side.members[i];
		m->fd = connect_port(port);
		ask_next(m);
	}
}

static void watch(double limit, pid_t other)
{
	while (!time_is_up()) {
		usleep(100000);
		int i = stalled(&ask_side, limit);
		if (i < 0)
			continue;
		struct member *m = &ask_side.members[i];
		fprintf(stderr,
			"STALL: connection %d fd %d local port %u: set %d mode 0x%x out %d to send "
			"%zu "
			"to receive %zu at %llu\n",
			i, m->fd, local_port(m->fd), m->set, m->mode, m->wants_out, m->to_send,
			m->to_receive, (unsigned long long)m->at);
		backtraces(getpid());
		if (other)
			backtraces(other);
		fail("lost wake-up");
	}
}

static void echo_process(void)
{
	pthread_t t[16];
	int n = 0;
	echo_open();
	side_threads(&echo_side, t, &n);
	for (;;)
		pause(); /* until the asking process ends us */
}

int main(int argc, char **argv)
{
	pthread_t t[16];
	int n = 0;
	options_read(argc, argv, 40);
	listener = listen_any_port(&port);
	pid_t child = 0;
	if (options.processes) {
		child = fork();
		if (!child)
			echo_process();
	}
	ask_open();
	if (!child) {
		echo_open();
		side_threads(&echo_side, t, &n);
	}
	for (int i = 0; i < options.connections; i++)
		ask_begin(&ask_side, &ask_side.members[i]);
	side_threads(&ask_side, t, &n);
	watch(5, child);
	atomic_store(&over, true);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	if (child) {
		int status = 0;
		if (waitpid(child, &status, WNOHANG))
			fail("the echo process ended with status 0x%x", status);
		kill(child, SIGTERM);
		waitpid(child, &status, 0);
	}
	printf("answers %llu changes %llu replaced %llu\n", (unsigned long long)answers,
	       (unsigned long long)changes, (unsigned long long)replaced);
	return atomic_load(&answers) > 0 ? 0 : 1;
}
