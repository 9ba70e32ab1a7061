/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A peer that is killed at a random moment. Each lane starts a victim (a process of its own, connecting or
 * accepting), exchanges data with it in one of several manners, and must see the end of the connection (end
 * of file, ECONNRESET or EPIPE) within a second of the victim's death; what it received until then must be
 * intact. The victim kills itself from a second thread, so it may be anywhere in the library.
 */

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "common.h"

enum { LANES = 4, BUFFER = 65536, MANNERS = 6 };

struct lane {
	int number;
	pid_t victim;	   /* guarded by victims */
	_Atomic bool dead; /* the victim has been reaped ... */
	_Atomic double dead_since;
	_Atomic bool busy; /* the connection is not over yet */
	int manner;
};

static struct lane lanes[LANES];
static pthread_mutex_t victims = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t kills, bytes;
static double grace = 1;
static const char *self;

/* --- the victim --- */

static void *executioner(void *arg)
{
	usleep((useconds_t)(uintptr_t)arg);
	kill(getpid(), SIGKILL);
	return NULL;
}

static void victim_write(int fd, struct rng *r, uint64_t *sent)
{
	static char b[BUFFER];
	size_t n = rng_size(r, sizeof(b));
	content_fill(b, 1, *sent, n);
	ssize_t done = send(fd, b, n, rng_one_in(r, 2) ? MSG_DONTWAIT : 0);
	if (done > 0)
		*sent += (uint64_t)done;
}

static void victim_read(int fd, struct rng *r, uint64_t *got)
{
	static char b[BUFFER];
	ssize_t n = recv(fd, b, rng_size(r, sizeof(b)), rng_one_in(r, 2) ? MSG_DONTWAIT : 0);
	if (n > 0 && content_check(b, 2, *got, (size_t)n) != (size_t)n)
		fail("the victim received garbage at %llu", (unsigned long long)*got);
	if (n > 0)
		*got += (uint64_t)n;
}

/* argv: victim PORT SEED FLAGS, the connection comes from connect() or is accepted from descriptor 3. */
static _Noreturn void victim(char **argv)
{
	uint16_t port = (uint16_t)atoi(argv[2]);
	struct rng r = rng_from(strtoull(argv[3], NULL, 0), 5);
	int manner = atoi(argv[4]);
	uint64_t sent = 0, got = 0;
	signal(SIGPIPE, SIG_IGN);
	int fd = port ? connect_port(port) : accept_from(3);
	/* Most deaths come after the change of carrier, some before or in it. */
	uint64_t delay = rng_one_in(&r, 3) ? rng_below(&r, 1500) : rng_below(&r, 25000);
	pthread_detach(thread_start(executioner, (void *)(uintptr_t)delay));
	for (;;) {
		switch (manner) {
		case 0: /* ping-pong: the other one begins */
			victim_read(fd, &r, &got);
			victim_write(fd, &r, &sent);
			break;
		case 1: /* only reads */
		case 2:
			victim_read(fd, &r, &got);
			break;
		case 3: /* only writes */
			victim_write(fd, &r, &sent);
			break;
		case 4: /* does nothing */
			pause();
			break;
		default:
			if (rng_one_in(&r, 2))
				victim_read(fd, &r, &got);
			else
				victim_write(fd, &r, &sent);
		}
	}
}

/* --- the survivor --- */

static pid_t victim_start(uint16_t port, int listener, uint64_t seed, int manner)
{
	char a[3][32];
	snprintf(a[0], sizeof(a[0]), "%u", port);
	snprintf(a[1], sizeof(a[1]), "%llu", (unsigned long long)seed);
	snprintf(a[2], sizeof(a[2]), "%d", manner);
	pid_t pid = fork();
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (pid)
		return pid;
	if (!port && listener == 3)
		fcntl(3, F_SETFD, 0);
	else if (!port)
		dup2(listener, 3);
	execl(self, self, "victim", a[0], a[1], a[2], (char *)NULL);
	_exit(127);
}

static bool over(ssize_t n)
{
	if (n == 0)
		return true;
	if (n > 0 || errno == EAGAIN || errno == EINTR)
		return false;
	if (errno != ECONNRESET && errno != EPIPE)
		fail("unexpected error: %s", strerror(errno));
	return true;
}

struct talk {
	int fd;
	struct rng rng;
	uint64_t sent, got;
	char buffer[BUFFER];
};

static ssize_t talk_write(struct talk *t, int flags)
{
	size_t n = rng_size(&t->rng, sizeof(t->buffer));
	content_fill(t->buffer, 2, t->sent, n);
	ssize_t done = send(t->fd, t->buffer, n, flags | MSG_NOSIGNAL);
	if (done > 0)
		t->sent += (uint64_t)done;
	return done;
}

static ssize_t talk_read(struct talk *t, int flags)
{
	ssize_t n = recv(t->fd, t->buffer, rng_size(&t->rng, sizeof(t->buffer)), flags);
	if (n > 0) {
		size_t good = content_check(t->buffer, 1, t->got, (size_t)n);
		if (good != (size_t)n)
			fail("wrong byte at %llu", (unsigned long long)(t->got + good));
		t->got += (uint64_t)n;
	}
	return n;
}

static void *talk_reader(void *arg)
{
	struct talk *t = arg;
	while (!over(talk_read(t, 0)))
		;
	return NULL;
}

static void talk_by_events(struct talk *t, bool by_epoll)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP }, out;
	struct pollfd p = { .fd = t->fd, .events = POLLIN };
	epoll_ctl(ep, EPOLL_CTL_ADD, t->fd, &e);
	for (bool wants_out = true;;) {
		unsigned events;
		if (by_epoll) {
			int n = epoll_wait(ep, &out, 1, -1);
			events = n == 1 ? out.events : 0;
		} else {
			p.events = (short)(POLLIN | (wants_out ? POLLOUT : 0));
			poll(&p, 1, -1);
			events = (unsigned short)p.revents;
		}
		if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
			/* An edge is told once: everything is read. */
			ssize_t n;
			while ((n = talk_read(t, MSG_DONTWAIT)) > 0)
				;
			if (over(n))
				break;
		}
		if (events & EPOLLOUT && over(talk_write(t, MSG_DONTWAIT)))
			break;
		if (by_epoll && wants_out && rng_one_in(&t->rng, 50)) {
			/* Writing no more: the end must be seen by reading alone. */
			wants_out = false;
			e.events = EPOLLIN | (rng_one_in(&t->rng, 2) ? EPOLLET : 0);
			epoll_ctl(ep, EPOLL_CTL_MOD, t->fd, &e);
		}
		wants_out = wants_out && !rng_one_in(&t->rng, 100);
	}
	close(ep);
}

static void talk(struct lane *l, int fd)
{
	struct talk *t = calloc(1, sizeof(*t)), *half;
	pthread_t reader;
	t->fd = fd;
	t->rng = rng_from(options.seed, mix((uint64_t)l->number, kills));
	switch (l->manner) {
	case 0:
		while (!over(talk_write(t, 0)) && !over(talk_read(t, MSG_DONTWAIT)))
			;
		break;
	case 1: /* writes until it breaks */
		while (!over(talk_write(t, 0)))
			;
		break;
	case 2:
		talk_by_events(t, false);
		break;
	case 3:
	case 4:
		while (!over(talk_read(t, 0)))
			;
		break;
	default:
		if (rng_one_in(&t->rng, 2)) {
			talk_by_events(t, true);
			break;
		}
		half = calloc(1, sizeof(*half));
		half->fd = fd;
		half->rng = rng_from(options.seed, kills);
		reader = thread_start(talk_reader, half);
		while (!over(talk_write(t, 0)))
			;
		pthread_join(reader, NULL);
		t->got = half->got;
		free(half);
	}
	atomic_fetch_add(&bytes, t->sent + t->got);
	free(t);
}

static void *lane_run(void *arg)
{
	struct lane *l = arg;
	struct rng r = rng_from(options.seed, (uint64_t)l->number);
	while (!time_is_up()) {
		uint16_t port;
		int fd, listener = listen_any_port(&port);
		bool accepts = rng_one_in(&r, 2);
		l->manner = (int)rng_below(&r, MANNERS);
		atomic_store(&l->dead, false);
		atomic_store(&l->busy, true);
		pthread_mutex_lock(&victims);
		l->victim = victim_start(accepts ? port : 0, listener, rng_next(&r), l->manner);
		pthread_mutex_unlock(&victims);
		fd = accepts ? accept_from(listener) : connect_port(port);
		close(listener);
		talk(l, fd);
		atomic_store(&l->busy, false);
		close(fd);
		while (!atomic_load(&l->dead))
			usleep(200);
		atomic_fetch_add(&kills, 1);
		progress();
	}
	return NULL;
}

/* Notes deaths; finds lanes that do not see theirs. */
static void reap_and_watch(void)
{
	int status;
	/* No victim dies between its start and the note of it. */
	pthread_mutex_lock(&victims);
	pid_t pid = waitpid(-1, &status, WNOHANG);
	for (int i = 0; i < LANES; i++) {
		struct lane *l = &lanes[i];
		if (pid > 0 && pid == l->victim) {
			if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
				fail("a victim ended by itself: status 0x%x, manner %d", status,
				     l->manner);
			atomic_store(&l->dead_since, now());
			atomic_store(&l->dead, true);
			l->victim = 0;
		}
		if (atomic_load(&l->dead) && atomic_load(&l->busy) &&
		    now() - atomic_load(&l->dead_since) > grace) {
			fprintf(stderr, "lane %d manner %d does not see the end\n", i, l->manner);
			backtraces(getpid());
			fail("a dead peer is not noticed within %.0f s", grace);
		}
	}
	pthread_mutex_unlock(&victims);
	if (pid <= 0)
		usleep(300);
}

int main(int argc, char **argv)
{
	pthread_t t[LANES];
	self = "/proc/self/exe";
	if (argc == 5 && !strcmp(argv[1], "victim"))
		victim(argv);
	options_read(argc, argv, LANES);
	/* Sanitizers make everything slower. */
	if (getenv("STRESS_GRACE"))
		grace = atof(getenv("STRESS_GRACE"));
	watchdog_start(20, NULL);
	for (int i = 0; i < LANES; i++) {
		lanes[i].number = i;
		t[i] = thread_start(lane_run, &lanes[i]);
	}
	int running = LANES;
	while (running) {
		reap_and_watch();
		if (time_is_up() && !pthread_tryjoin_np(t[running - 1], NULL))
			running--;
	}
	printf("kills %llu bytes %llu\n", (unsigned long long)kills, (unsigned long long)bytes);
	return 0;
}
