/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * connect [MILLISECONDS]: connections made, accepted and closed without any data, by one process
 * each. Prints connections per second.
 */

#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int listen_on(struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int fd = bench_check(socket(AF_INET, SOCK_STREAM, 0), "socket");

	*addr = (struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bench_check(bind(fd, (struct sockaddr *)addr, len), "bind");
	bench_check(listen(fd, 128), "listen");
	bench_check(getsockname(fd, (struct sockaddr *)addr, &len), "getsockname");
	return fd;
}

/* The acceptor closes first: what waits for stray segments then is not in the way of the next
 * connect. */
static void accept_for_ever(int listener)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		close(bench_check(accept(listener, NULL, NULL), "accept"));
}

static void connect_once(const struct sockaddr_in *addr)
{
	int fd = bench_check(socket(AF_INET, SOCK_STREAM, 0), "socket");
	char c;

	bench_check(connect(fd, (const struct sockaddr *)addr, sizeof(*addr)), "connect");
	if (recv(fd, &c, 1, 0) != 0)
		err(1, "no end of file");
	close(fd);
}

int main(int argc, char **argv)
{
	uint64_t span = (uint64_t)bench_number(argc, argv, 1, 1000) * 1000000, start, now;
	struct sockaddr_in addr;
	int listener = listen_on(&addr);
	pid_t child = bench_check(fork(), "fork");
	long n = 0;

	if (!child)
		accept_for_ever(listener);
	close(listener);
	start = now = bench_now_ns();
	for (; now - start < span; n++) {
		connect_once(&addr);
		now = bench_now_ns();
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("%.0f\n", (double)n * 1e9 / (double)(now - start));
	return 0;
}
