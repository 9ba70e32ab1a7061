/* SPDX-License-Identifier: BSD-2-Clause */

/* Helpers that scenarios are written with: sockets, content, signals, threads. */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "harness.h"

socklen_t loopback(struct sockaddr_storage *address, int family, uint16_t port)
{
	memset(address, 0, sizeof(*address));
	if (family == AF_INET6) {
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
		v6->sin6_family = AF_INET6;
		v6->sin6_addr = in6addr_loopback;
		v6->sin6_port = htons(port);
		return sizeof(*v6);
	}
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	v4->sin_family = AF_INET;
	v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	v4->sin_port = htons(port);
	return sizeof(*v4);
}

void no_delay(int fd)
{
	int on = 1;
	MUST(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
}

int tcp_socket(int family, int type_flags)
{
	int fd = socket(family, SOCK_STREAM | type_flags, 0);
	MUST(fd >= 0);
	/* Without it, when a second small send arrives depends on when the kernel acknowledges the first. */
	no_delay(fd);
	return fd;
}

uint16_t port_of(int fd)
{
	struct sockaddr_in6 address;
	socklen_t size = sizeof(address);
	MUST(!getsockname(fd, (struct sockaddr *)&address, &size));
	return ntohs(address.sin6_port); /* at the same place in both families */
}

int listen_on(int family, bool any, uint16_t *port)
{
	struct sockaddr_storage address;
	socklen_t size = loopback(&address, family, 0);
	int fd = tcp_socket(family, 0);
	if (any && family == AF_INET6)
		((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_any;
	else if (any)
		((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_ANY);
	MUST(!bind(fd, (struct sockaddr *)&address, size));
	MUST(!listen(fd, 1024));
	*port = port_of(fd);
	return fd;
}

int connect_to(int family, uint16_t port)
{
	struct sockaddr_storage address;
	socklen_t size = loopback(&address, family, port);
	int fd = tcp_socket(family, 0);
	MUST(!connect(fd, (struct sockaddr *)&address, size));
	return fd;
}

void self_pair_cold(int sv[2])
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	sv[0] = connect_to(AF_INET, port);
	sv[1] = accept(listener, NULL, NULL);
	MUST(sv[1] >= 0);
	close(listener);
}

void self_pair(int sv[2])
{
	self_pair_cold(sv);
	warm_up_both(sv[0], sv[1]);
}

void set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);
	MUST(flags >= 0);
	MUST(!fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

long now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void nap(int ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

unsigned wait_events(int fd, unsigned events, int ms)
{
	struct pollfd p = { .fd = fd, .events = (short)events };
	int n;
	do
		n = poll(&p, 1, ms);
	while (n < 0 && errno == EINTR);
	return n > 0 ? (unsigned short)p.revents : 0;
}

bool wait_queued(int fd, int n)
{
	long end = now_ms() + 5000;
	int have = -1;
	while (!ioctl(fd, FIONREAD, &have) && have < n && now_ms() < end)
		nap(1);
	return have >= n;
}

void send_all(int fd, const void *data, size_t size)
{
	const char *p = data;
	while (size) {
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			MUST(wait_events(fd, POLLOUT, 10000));
			continue;
		}
		MUST(n > 0);
		p += n;
		size -= (size_t)n;
	}
}

void recv_all(int fd, void *data, size_t size)
{
	char *p = data;
	while (size) {
		ssize_t n = recv(fd, p, size, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			MUST(wait_events(fd, POLLIN, 10000));
			continue;
		}
		MUST(n > 0);
		p += n;
		size -= (size_t)n;
	}
}

void linger_reset(int fd)
{
	struct linger l = { .l_onoff = 1, .l_linger = 0 };
	MUST(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
}

bool wait_asleep(pid_t tid)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	long end = now_ms() + 2000;
	int asleep = 0;
	while (now_ms() < end) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = 0;
		char *paren = strrchr(text, ')');
		asleep = paren && paren[1] && paren[2] == 'S' ? asleep + 1 : 0;
		if (asleep == 3)
			return true;
		nap(5);
	}
	return false;
}

/* --- content --- */

/* Byte `i` of stream `seed` is byte i % 8 of a hash of (seed, i / 8). */
static uint64_t pattern_word(uint32_t seed, uint64_t index)
{
	uint64_t x = index * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	return x;
}

void pattern_fill(void *data, uint32_t seed, size_t offset, size_t size)
{
	unsigned char *p = data;
	while (size) {
		uint64_t word = pattern_word(seed, offset / 8);
		size_t skip = offset % 8, n = 8 - skip < size ? 8 - skip : size;
		memcpy(p, (char *)&word + skip, n);
		p += n;
		offset += n;
		size -= n;
	}
}

bool pattern_check(const void *data, uint32_t seed, size_t offset, size_t size)
{
	const unsigned char *p = data;
	while (size) {
		uint64_t word = pattern_word(seed, offset / 8);
		size_t skip = offset % 8, n = 8 - skip < size ? 8 - skip : size;
		if (memcmp(p, (char *)&word + skip, n))
			return false;
		p += n;
		offset += n;
		size -= n;
	}
	return true;
}

void pattern_send(int fd, uint32_t seed, size_t offset, size_t size, size_t chunk)
{
	char *buffer = malloc(chunk);
	MUST(buffer);
	while (size) {
		size_t n = size < chunk ? size : chunk;
		pattern_fill(buffer, seed, offset, n);
		send_all(fd, buffer, n);
		offset += n;
		size -= n;
	}
	free(buffer);
}

bool pattern_recv(int fd, uint32_t seed, size_t offset, size_t size, size_t chunk)
{
	char *buffer = malloc(chunk);
	bool ok = true;
	MUST(buffer);
	while (size && ok) {
		ssize_t n = recv(fd, buffer, size < chunk ? size : chunk, 0);
		if (n < 0 && errno == EAGAIN && wait_events(fd, POLLIN, 10000))
			continue;
		if (n < 0 && errno == EINTR)
			continue;
		ok = n > 0 && pattern_check(buffer, seed, offset, (size_t)n);
		if (n > 0) {
			offset += (size_t)n;
			size -= (size_t)n;
		}
	}
	free(buffer);
	return ok;
}

size_t recv_to_end(int fd, uint32_t seed, size_t from, bool *intact, int *err)
{
	char *buffer = malloc(65536);
	size_t at = from;
	MUST(buffer);
	*intact = true;
	*err = 0;
	for (;;) {
		ssize_t n = recv(fd, buffer, 65536, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && wait_events(fd, POLLIN, 10000))
			continue;
		if (n < 0)
			*err = errno;
		if (n <= 0)
			break;
		*intact = *intact && pattern_check(buffer, seed, at, (size_t)n);
		at += (size_t)n;
	}
	free(buffer);
	return at - from;
}

uint32_t checksum(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint32_t sum = 2166136261u;
	for (size_t i = 0; i < size; i++)
		sum = (sum ^ p[i]) * 16777619u;
	return sum;
}

/* --- signals and threads --- */

volatile sig_atomic_t signals_seen;

static void count_signal(int signo)
{
	(void)signo;
	signals_seen++;
}

void on_signal(int signo, int sa_flags)
{
	struct sigaction act = { .sa_handler = count_signal, .sa_flags = sa_flags };
	MUST(!sigaction(signo, &act, NULL));
}

void alarm_every(int ms)
{
	struct timeval t = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	struct itimerval timer = { .it_interval = t, .it_value = t };
	MUST(!setitimer(ITIMER_REAL, &timer, NULL));
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	atomic_store(&w->tid, (pid_t)syscall(SYS_gettid));
	if (w->actor)
		actor_use(w->actor, w->name);
	w->run(w);
	return NULL;
}

void worker_start(struct worker *w)
{
	MUST(!pthread_create(&w->thread, NULL, worker_main, w));
	while (!atomic_load(&w->tid))
		nap(1);
}

void worker_join(struct worker *w)
{
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 5;
	int err = pthread_timedjoin_np(w->thread, NULL, &end);
	if (!err)
		return;
	say("HANG: the thread %s does not end", w->name ? w->name : "");
	_exit(96);
}
