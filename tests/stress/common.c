/* SPDX-License-Identifier: BSD-2-Clause */

#include "common.h"

#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

struct options options;

static double start_time;
static _Atomic uint64_t moves;

double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

bool time_is_up(void)
{
	return now() - start_time > options.seconds;
}

void options_read(int argc, char **argv, int connections)
{
	static const struct option known[] = { { "seconds", required_argument, NULL, 's' },
					       { "seed", required_argument, NULL, 'r' },
					       { "connections", required_argument, NULL, 'c' },
					       { "processes", no_argument, NULL, 'p' },
					       { 0 } };
	options = (struct options){ .seconds = 3, .connections = connections };
	for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (c) {
		case 's':
			options.seconds = atof(optarg);
			break;
		case 'r':
			options.seed = strtoull(optarg, NULL, 0);
			break;
		case 'c':
			options.connections = atoi(optarg);
			break;
		case 'p':
			options.processes = true;
			break;
		default:
			exit(2);
		}
	}
	if (!options.seed) {
		struct timespec t;
		clock_gettime(CLOCK_REALTIME, &t);
		options.seed = mix((uint64_t)t.tv_nsec, (uint64_t)getpid()) & 0xffffffff;
	}
	printf("seed %llu\n", (unsigned long long)options.seed);
	fflush(stdout);
	signal(SIGPIPE, SIG_IGN);
	start_time = now();
}

/* --- random numbers --- */

uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 29;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

struct rng rng_from(uint64_t a, uint64_t b)
{
	return (struct rng){ mix(a, b) | 1 };
}

uint64_t rng_next(struct rng *r)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return r->state * 0x2545f4914f6cdd1du;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	return (rng_next(r) >> 16) % n;
}

size_t rng_size(struct rng *r, size_t max)
{
	int bits = 64 - __builtin_clzll((unsigned long long)max);
	size_t top = (size_t)1 << rng_below(r, (uint64_t)bits + 1);
	if (top > max)
		top = max;
	return 1 + rng_below(r, top);
}

bool rng_one_in(struct rng *r, unsigned n)
{
	return rng_below(r, n) == 0;
}

/* --- content: byte i is byte i % 8 of a hash of (stream, i / 8) --- */

void content_fill(void *data, uint64_t stream, uint64_t offset, size_t size)
{
	unsigned char *p = data;
	while (size) {
		uint64_t word = mix(stream, offset / 8);
		size_t skip = offset % 8, n = 8 - skip < size ? 8 - skip : size;
		memcpy(p, (char *)&word + skip, n);
		p += n;
		offset += n;
		size -= n;
	}
}

size_t content_check(const void *data, uint64_t stream, uint64_t offset, size_t size)
{
	const unsigned char *p = data;
	size_t at = 0;
	while (at < size) {
		uint64_t word = mix(stream, (offset + at) / 8);
		size_t skip = (offset + at) % 8, n = 8 - skip < size - at ? 8 - skip : size - at;
		if (memcmp(p + at, (char *)&word + skip, n))
			break;
		at += n;
	}
	while (at < size) {
		uint64_t word = mix(stream, (offset + at) / 8);
		if (p[at] != ((unsigned char *)&word)[(offset + at) % 8])
			return at;
		at++;
	}
	return size;
}

/* --- sockets --- */

static void loopback(struct sockaddr_in *a, uint16_t port)
{
	*a = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_port = htons(port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

uint16_t local_port(int fd)
{
	struct sockaddr_in a = { 0 };
	socklen_t size = sizeof(a);
	if (getsockname(fd, (struct sockaddr *)&a, &size) < 0)
		fail("getsockname: %s", strerror(errno));
	return ntohs(a.sin_port);
}

uint16_t remote_port(int fd)
{
	struct sockaddr_in a = { 0 };
	socklen_t size = sizeof(a);
	/* A connection that was reset has forgotten it. */
	if (getpeername(fd, (struct sockaddr *)&a, &size) < 0)
		return 0;
	return ntohs(a.sin_port);
}

int listen_any_port(uint16_t *port)
{
	struct sockaddr_in a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	loopback(&a, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1024) < 0)
		fail("listen: %s", strerror(errno));
	*port = local_port(fd);
	return fd;
}

int connect_port(uint16_t port)
{
	struct sockaddr_in a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	loopback(&a, port);
	if (fd < 0)
		fail("socket: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EADDRNOTAVAIL)
			fail("connect: %s", strerror(errno));
		/* All ports are in TIME_WAIT. */
		usleep(10000);
	}
	return fd;
}

int accept_from(int listener)
{
	int fd, on = 1;
	do
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (fd < 0)
		fail("accept: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

void nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		fail("fcntl: %s", strerror(errno));
}

void local_pair(int sv[2])
{
	uint16_t port;
	int listener = listen_any_port(&port);
	sv[0] = connect_port(port);
	sv[1] = accept_from(listener);
	close(listener);
}

/* --- failures and progress --- */

void fail(const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "FAILED (seed %llu, pid %d): %s\n", (unsigned long long)options.seed,
		(int)getpid(), text);
	_exit(1);
}

void progress(void)
{
	atomic_fetch_add_explicit(&moves, 1, memory_order_relaxed);
}

void backtraces(pid_t pid)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", (int)pid);
	pid_t child = fork();
	if (!child) {
		unsetenv("LD_PRELOAD");
		dup2(2, 1);
		execlp("gdb", "gdb", "-q", "-batch", "-p", text, "-ex", "thread apply all bt 14",
		       (char *)NULL);
		_exit(127);
	}
	waitpid(child, NULL, 0);
}

static double watchdog_limit;
static void (*watchdog_tell)(void);

static void *watchdog(void *arg)
{
	uint64_t last = atomic_load(&moves);
	double since = now();
	(void)arg;
	for (;;) {
		usleep(50000);
		uint64_t m = atomic_load(&moves);
		if (m != last) {
			last = m;
			since = now();
		} else if (now() - since > watchdog_limit) {
			break;
		}
	}
	fprintf(stderr, "STALL: nothing moved for %.0f s\n", watchdog_limit);
	if (watchdog_tell)
		watchdog_tell();
	backtraces(getpid());
	fail("stall");
}

void watchdog_start(double limit, void (*tell)(void))
{
	watchdog_limit = limit;
	watchdog_tell = tell;
	pthread_detach(thread_start(watchdog, NULL));
}

pthread_t thread_start(void *(*run)(void *), void *arg)
{
	pthread_t t;
	int err = pthread_create(&t, NULL, run, arg);
	if (err)
		fail("pthread_create: %s", strerror(err));
	return t;
}
