/* SPDX-License-Identifier: BSD-2-Clause */

/* What the library must not cost or show: CPU, threads, numbers, signals, odd surroundings. */

#include <dirent.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "harness.h"

static long cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Idle connections use no CPU. */
SOLO(limits_idle, 0)
{
	enum { N = 100 };
	static int pairs[N][2];
	for (int i = 0; i < N; i++)
		self_pair_cold(pairs[i]);
	warm_up_many(pairs, N);
	nap(50);
	long before = cpu_ms();
	nap(600);
	YES(cpu_ms() - before < 60);
}

/* A blocked process neither. */
PAIR(limits_blocked, 0);

SERVER(limits_blocked)
{
	char b[8];
	int ep = epoll_create1(0);
	struct epoll_event e = { .events = EPOLLIN }, out;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	MUST(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	for (int way = 0; way < 3; way++) {
		post(way);
		long before = cpu_ms();
		if (way == 1)
			MUST(poll(&p, 1, 5000) == 1);
		if (way == 2)
			MUST(epoll_wait(ep, &out, 1, 5000) == 1);
		recv_all(fd, b, 1);
		YES(cpu_ms() - before < 60);
	}
}

CLIENT(limits_blocked)
{
	for (int way = 0; way < 3; way++) {
		await(way);
		nap(300);
		send_all(fd, "x", 1);
	}
}

static int thread_count(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/task");
	for (struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* No thread for a process without an accelerated connection. */
SOLO(limits_no_thread, MUST_BE_TCP)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port), pipes[2];
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	MUST(!pipe(pipes) && udp >= 0);
	R(epoll_create1(0) >= 0);
	say("threads %d", thread_count());
	say_events("poll", wait_events(listener, POLLIN, 20));
	say("threads %d", thread_count());
}

/* Signals for the process come to the application's threads, or stay pending. */
static volatile pid_t handled_by;

static void who(int signo)
{
	(void)signo;
	handled_by = (pid_t)syscall(SYS_gettid);
}

PAIR(limits_signal_target, 0);

SERVER(limits_signal_target)
{
	static const int signals[] = { SIGUSR1, SIGUSR2, SIGTERM, SIGINT,  SIGHUP,
				       SIGCHLD, SIGALRM, SIGIO,	  SIGPROF, SIGWINCH };
	struct sigaction act = { .sa_handler = who };
	sigset_t all, old, pending;
	char b[8];
	sigfillset(&all);
	MUST(!pthread_sigmask(SIG_BLOCK, &all, &old));
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		MUST(!sigaction(signals[i], &act, NULL));
		kill(getpid(), signals[i]);
	}
	recv_all(fd, b, 1);
	nap(50);
	sigpending(&pending);
	int n = 0;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		n += sigismember(&pending, signals[i]);
	say("pending %d handled %d", n, handled_by != 0);
	MUST(!pthread_sigmask(SIG_SETMASK, &old, NULL));
	YES(handled_by == getpid());
}

CLIENT(limits_signal_target)
{
	nap(20);
	send_all(fd, "x", 1);
}

/* Standard descriptors closed by who started us: the application gets the numbers it expects. */
ROLE(limits_closed_stdio, program)
{
	int sv[2];
	actor_use(3, "program");
	self_pair(sv);
	say("numbers %d %d, next %d", sv[0], sv[1], open("/dev/null", O_RDONLY));
	pattern_send(sv[0], 1, 0, 10000, 1000);
	say("intact %d", pattern_recv(sv[1], 1, 0, 10000, 1000));
}

SOLO(limits_closed_stdio, 0)
{
	pid_t child = fork();
	if (!child) {
		close(0);
		close(1);
		close(2);
		execl(self_path(), self_path(), scenario_name(), "@program", (char *)NULL);
		_exit(98);
	}
	say_status("program", reap(child));
}

/* errno is left alone by calls that succeed. */
PAIR(limits_errno_untouched, 0);

SERVER(limits_errno_untouched)
{
	char b[64];
	int n = 0, ep, wrong = 0;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event e = { .events = EPOLLIN };
#define KEEPS(call)                                                                                \
	do {                                                                                       \
		errno = 4242;                                                                      \
		if ((long)(call) < 0)                                                              \
			say("failed: %s", #call);                                                  \
		else if (errno != 4242)                                                            \
			wrong++;                                                                   \
	} while (0)
	for (int i = 0; i < 100; i++) {
		KEEPS(poll(&p, 1, 1000));
		KEEPS(ep = epoll_create1(0));
		KEEPS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
		KEEPS(epoll_wait(ep, &e, 1, 1000));
		KEEPS(recv(fd, b, sizeof(b), 0));
		KEEPS(send(fd, b, 1, 0));
		KEEPS(dup2(fd, 50));
		KEEPS(close(50));
		KEEPS(fcntl(fd, F_GETFL));
		KEEPS(close(ep));
		n++;
	}
	say("rounds %d wrong %d", n, wrong);
}

CLIENT(limits_errno_untouched)
{
	char c;
	for (int i = 0; i < 100; i++) {
		send_all(fd, "x", 1);
		recv_all(fd, &c, 1);
	}
}

/* A proxy without the library between two ends with it: nobody may mistake it for the other end. */
ROLE(limits_plain_proxy, proxy)
{
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	shared_set(1, port);
	post(1);
	int in = accept(listener, NULL, NULL);
	int out = connect_to(AF_INET, (uint16_t)shared_get(0));
	struct pollfd p[2] = { { .fd = in, .events = POLLIN }, { .fd = out, .events = POLLIN } };
	static char b[65536];
	for (;;) {
		MUST(poll(p, 2, 10000) > 0);
		for (int i = 0; i < 2; i++) {
			if (!p[i].revents)
				continue;
			ssize_t n = recv(p[i].fd, b, sizeof(b), 0);
			if (n <= 0)
				return;
			send_all(p[!i].fd, b, (size_t)n);
		}
	}
}

ROLE(limits_plain_proxy, far)
{
	uint16_t port;
	actor_use(2, "far end");
	int listener = listen_on(AF_INET, false, &port);
	shared_set(0, port);
	post(0);
	int fd = accept(listener, NULL, NULL);
	bool ok = true;
	for (size_t i = 0; i < 300; i++) {
		ok = ok && pattern_recv(fd, 1, i * 100, 100, 100);
		pattern_send(fd, 2, i * 100, 100, 100);
	}
	say("intact %d", ok);
}

SOLO(limits_plain_proxy, MUST_BE_TCP)
{
	pid_t far = spawn_role("far", 0);
	await(0);
	pid_t proxy = spawn_role("proxy", SPAWN_PLAIN);
	await(1);
	int fd = connect_to(AF_INET, (uint16_t)shared_get(1));
	bool ok = true;
	for (size_t i = 0; i < 300; i++) {
		pattern_send(fd, 1, i * 100, 100, 100);
		ok = ok && pattern_recv(fd, 2, i * 100, 100, 100);
	}
	say("intact %d", ok);
	close(fd);
	say_status("far end", reap(far));
	reap(proxy);
}

/* Options that change what only the kernel can tell. */
PAIR(limits_peek_offset, 0);

SERVER(limits_peek_offset)
{
	char b[8] = "";
	int off = 2;
	await(0);
	bool can = !setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off));
	say("supported %d", can);
	if (!can)
		return;
	R(recv(fd, b, 2, MSG_PEEK));
	say("peeked %.2s", b);
	R(recv(fd, b, 2, MSG_PEEK));
	say("peeked %.2s", b);
	R(recv(fd, b, 1, 0));
	say("got %.1s", b);
	R(recv(fd, b, 1, MSG_PEEK));
	say("peeked %.1s", b);
}

CLIENT(limits_peek_offset)
{
	send_all(fd, "abcdefgh", 8);
	post(0);
}

static size_t control_after_recv(int fd)
{
	char b[8], control[256];
	struct iovec v = { b, sizeof(b) };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	MUST(recvmsg(fd, &m, 0) == 3);
	return m.msg_controllen;
}

PAIR(limits_tcp_inq, 0);

SERVER(limits_tcp_inq)
{
	int on = 1;
	R(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
	post(0);
	MUST(wait_queued(fd, 3));
	say("control %zu", control_after_recv(fd));
}

CLIENT(limits_tcp_inq)
{
	await(0);
	send_all(fd, "abc", 3);
}

PAIR(limits_timestamps, 0);

SERVER(limits_timestamps)
{
	int on = 1;
	size_t control = 0;
	R(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)));
	/* The kernel begins to take times a little later. */
	for (int i = 0; i < 50; i++) {
		post(0);
		MUST(wait_queued(fd, 3));
		if (!control)
			control = control_after_recv(fd);
		else
			recv_all(fd, (char[3]){ 0 }, 3);
		if (i < 49)
			nap(control ? 0 : 5);
	}
	say("control %zu", control);
}

CLIENT(limits_timestamps)
{
	for (int i = 0; i < 50; i++) {
		await_n(0, i + 1);
		send_all(fd, "abc", 3);
	}
}

PAIR(limits_zerocopy, 0);

SERVER(limits_zerocopy)
{
	say("intact %d", pattern_recv(fd, 1, 0, 100000, 100000));
}

CLIENT(limits_zerocopy)
{
	static char b[100000];
	char control[256];
	struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };
	int on = 1;
	pattern_fill(b, 1, 0, sizeof(b));
	R(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
	R(send(fd, b, sizeof(b), MSG_ZEROCOPY));
	say_events("poll", wait_events(fd, POLLRDHUP, 3000));
	R(recvmsg(fd, &m, MSG_ERRQUEUE));
	YES(m.msg_controllen > 0);
}

/* TCP Fast Open: connecting by the first write. */
SOLO(limits_fastopen, MAY_BE_TCP)
{
	uint16_t port;
	struct sockaddr_storage a;
	char b[8] = "";
	int listener = listen_on(AF_INET, false, &port);
	socklen_t size = loopback(&a, AF_INET, port);
	int fd = tcp_socket(AF_INET, 0);
	R(sendto(fd, "hello", 5, MSG_FASTOPEN, (struct sockaddr *)&a, size));
	int peer = accept(listener, NULL, NULL);
	R(recv(peer, b, sizeof(b), 0));
	warm_up_both(fd, peer);
	pattern_send(fd, 1, 0, 10000, 1000);
	say("intact %d", pattern_recv(peer, 1, 0, 10000, 1000));
}

/* With TCP_DEFER_ACCEPT the connection is accepted once it has data. */
SOLO(limits_defer_accept, SOME_TCP)
{
	uint16_t port;
	char b[8];
	int seconds = 2, listener = listen_on(AF_INET, false, &port);
	R(setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds)));
	int fd = connect_to(AF_INET, port);
	say_events("poll", wait_events(listener, POLLIN, 50));
	R(send(fd, "abc", 3, 0));
	say_events("poll", wait_events(listener, POLLIN, 3000));
	int peer = accept(listener, NULL, NULL);
	R(recv(peer, b, sizeof(b), MSG_DONTWAIT));
	warm_up_both(fd, peer);
}
