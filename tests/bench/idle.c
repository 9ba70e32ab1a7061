/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * idle [CONNECTIONS]: an epoll server and a client with many connections. All are used for a while,
 * which gives the library every reason to accelerate them, then they rest. Prints the two process
 * ids when they do, and ends when its standard input does.
 */

#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGE = 64, ROUNDS = 40, PAUSE_US = 20000 };

static void raise_limit(long connections)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < (rlim_t)connections + 64)
		errx(77, "RLIMIT_NOFILE is too low");
}

static int listen_on(struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int fd = bench_check(socket(AF_INET, SOCK_STREAM, 0), "socket");

	*addr = (struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bench_check(bind(fd, (struct sockaddr *)addr, len), "bind");
	bench_check(listen(fd, 4096), "listen");
	bench_check(getsockname(fd, (struct sockaddr *)addr, &len), "getsockname");
	return fd;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	bench_check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static void echo(int epoll, int listener, int fd)
{
	char buffer[MESSAGE];
	ssize_t n;

	if (fd == listener) {
		watch(epoll, bench_check(accept(listener, NULL, NULL), "accept"));
		return;
	}
	n = recv(fd, buffer, sizeof(buffer), 0);
	if (n <= 0)
		close(fd);
	else if (send(fd, buffer, (size_t)n, MSG_NOSIGNAL) != n)
		err(1, "echo");
}

static void serve(int listener)
{
	struct epoll_event events[64];
	int epoll = bench_check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	watch(epoll, listener);
	for (;;) {
		int n = bench_check(epoll_wait(epoll, events, 64, -1), "epoll_wait");

		for (int i = 0; i < n; i++)
			echo(epoll, listener, events[i].data.fd);
	}
}

static void exchange(int fd)
{
	char buffer[MESSAGE] = { 0 };

	if (send(fd, buffer, sizeof(buffer), MSG_NOSIGNAL) != MESSAGE ||
	    recv(fd, buffer, sizeof(buffer), MSG_WAITALL) != MESSAGE)
		err(1, "exchange");
}

int main(int argc, char **argv)
{
	long n = bench_number(argc, argv, 1, 1000);
	int *fd = calloc((size_t)n, sizeof(*fd));
	struct sockaddr_in addr;
	int listener;
	pid_t child;
	char c;

	if (!fd)
		err(1, "memory");
	raise_limit(n);
	listener = listen_on(&addr);
	child = bench_check(fork(), "fork");
	if (!child)
		serve(listener);
	close(listener);
	for (long i = 0; i < n; i++) {
		fd[i] = bench_check(socket(AF_INET, SOCK_STREAM, 0), "socket");
		bench_check(connect(fd[i], (struct sockaddr *)&addr, sizeof(addr)), "connect");
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (long i = 0; i < n; i++)
			exchange(fd[i]);
		usleep(PAUSE_US);
	}
	printf("%d %d\n", (int)getpid(), (int)child);
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	free(fd);
	return 0;
}
