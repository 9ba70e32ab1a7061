/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * calls pipe|file|udp [MILLISECONDS]: what a call costs on a descriptor that is no TCP connection.
 * Prints nanoseconds per call: the best of many short batches, for all that disturbs only adds.
 */

#include "bench.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 1000 };

static int fds[2];

static void pipe_open(void)
{
	bench_check(pipe(fds), "pipe");
}

static void pipe_turn(void)
{
	char c = 0;

	if (write(fds[1], &c, 1) != 1 || read(fds[0], &c, 1) != 1)
		err(1, "pipe");
}

static void file_open(void)
{
}

static void file_turn(void)
{
	close(bench_check(open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null"));
}

static void udp_open(void)
{
	struct sockaddr_in addr[2] = { 0 };
	socklen_t len = sizeof(addr[0]);

	for (int i = 0; i < 2; i++) {
		addr[i].sin_family = AF_INET;
		addr[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		fds[i] = bench_check(socket(AF_INET, SOCK_DGRAM, 0), "socket");
		bench_check(bind(fds[i], (struct sockaddr *)&addr[i], len), "bind");
		bench_check(getsockname(fds[i], (struct sockaddr *)&addr[i], &len), "getsockname");
	}
	for (int i = 0; i < 2; i++)
		bench_check(connect(fds[i], (struct sockaddr *)&addr[!i], len), "connect");
}

static void udp_turn(void)
{
	char c = 0;

	if (send(fds[0], &c, 1, 0) != 1 || recv(fds[1], &c, 1, 0) != 1)
		err(1, "udp");
}

struct kind {
	const char *name;
	void (*open)(void);
	void (*turn)(void); /* two calls */
};

static const struct kind kinds[] = {
	{ "pipe", pipe_open, pipe_turn },
	{ "file", file_open, file_turn },
	{ "udp", udp_open, udp_turn },
};

static double best_batch(const struct kind *kind, uint64_t until)
{
	uint64_t best = UINT64_MAX, start, end = bench_now_ns();

	do {
		start = end;
		for (int i = 0; i < BATCH; i++)
			kind->turn();
		end = bench_now_ns();
		if (end - start < best)
			best = end - start;
	} while (end < until);
	return (double)best / (2 * BATCH);
}

int main(int argc, char **argv)
{
	const struct kind *kind = NULL;
	cpu_set_t one;

	for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(argv[1], kinds[i].name))
			kind = &kinds[i];
	if (!kind)
		errx(2, "usage: calls pipe|file|udp [MILLISECONDS]");
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one); /* helps where it is allowed */
	kind->open();
	printf("%.2f\n",
	       best_batch(kind,
			  bench_now_ns() + (uint64_t)bench_number(argc, argv, 2, 500) * 1000000));
	return 0;
}
