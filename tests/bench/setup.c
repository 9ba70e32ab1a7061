/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * setup: what the pool saves of setting a connection up. Batches of 100 connections, each from connect() until both
 * directions are carried by SMC; 5 rounds after a warm-up. A batch whose predecessors are closed finds their
 * segments in the pool; one whose predecessors stay open must make its own. Prints microseconds a connection.
 * Run it under the library with SMC_UPGRADE_CALLS=1, SMC_SNDBUF=16K and SMC_RCVBUF=128K.
 */

#include "bench.h"
#include "core/stats.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 100, ROUNDS = 5, PATIENCE_S = 5 };

/* The library's own account of this process: the page that smc_stat reads. There from the first connection on. */
static const struct smc_stats_page *find_stats(void)
{
	DIR *dir = opendir("/proc/self/fd");
	char path[64], text[64];
	ssize_t n;

	for (struct dirent *d; dir && (d = readdir(dir));) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.16s", d->d_name);
		if ((n = readlink(path, text, sizeof(text) - 1)) < 0)
			continue;
		text[n] = 0;
		if (!strstr(text, SMC_STATS_NAME))
			continue;
		struct smc_stats_page head;
		int fd = bench_check(open(path, O_RDONLY), "open");
		if (read(fd, &head, sizeof(head)) != sizeof(head))
			errx(1, "short page");
		/* it grows */
		void *page = mmap(NULL, head.header_size + (size_t)head.max_slots * head.slot_size, PROT_READ, MAP_SHARED, fd, 0);
		if (page == MAP_FAILED)
			err(1, "mmap");
		close(fd);
		closedir(dir);
		return page;
	}
	errx(77, "not run under the library");
}

static bool carried(const struct smc_stats_page *page, uint16_t port)
{
	for (uint32_t i = 0; i < page->slots; i++) {
		const struct smc_stats_slot *s =
			(const void *)((const char *)page + page->header_size + (size_t)i * page->slot_size);
		if (s->used && s->local.port == port && s->role == SMC_ROLE_CONNECTOR)
			return s->tx_carrier == SMC_CARRIER_SHM && s->rx_carrier == SMC_CARRIER_SHM;
	}
	return false;
}

static void serve(int listener)
{
	int epoll = bench_check(epoll_create1(0), "epoll_create1");
	struct epoll_event e = { .events = EPOLLIN, .data.fd = listener };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_check(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e), "epoll_ctl");
	while (epoll_wait(epoll, &e, 1, -1) >= 0) {
		int fd = e.data.fd;
		char c;
		if (fd == listener) {
			fd = bench_check(accept(listener, NULL, NULL), "accept");
			e = (struct epoll_event){ .events = EPOLLIN, .data.fd = fd };
			bench_check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e), "epoll_ctl");
		} else if (recv(fd, &c, 1, 0) != 1 || send(fd, &c, 1, MSG_NOSIGNAL) != 1) {
			close(fd);
		}
	}
}

static int set_up(const struct sockaddr_in *server)
{
	static const struct smc_stats_page *page;
	struct sockaddr_in own;
	socklen_t len = sizeof(own);
	int fd = bench_check(socket(AF_INET, SOCK_STREAM, 0), "socket");
	uint64_t give_up = bench_now_ns() + PATIENCE_S * UINT64_C(1000000000);
	char c = 0;

	bench_check(connect(fd, (const struct sockaddr *)server, sizeof(*server)), "connect");
	bench_check(getsockname(fd, (struct sockaddr *)&own, &len), "getsockname");
	if (!page)
		page = find_stats();
	do {
		if (send(fd, &c, 1, 0) != 1 || recv(fd, &c, 1, 0) != 1)
			err(1, "exchange");
		if (bench_now_ns() > give_up)
			errx(1, "a connection was not carried in %d s", PATIENCE_S);
	} while (!carried(page, ntohs(own.sin_port)));
	return fd;
}

/* A batch; returns microseconds a connection. */
static double batch(const struct sockaddr_in *server, int fds[BATCH])
{
	uint64_t start = bench_now_ns();

	for (int i = 0; i < BATCH; i++)
		fds[i] = set_up(server);
	return (double)(bench_now_ns() - start) / 1000 / BATCH;
}

/* Returns when the other end has closed too, which puts the segments back. */
static void close_all(int fds[BATCH])
{
	char c;

	for (int i = 0; i < BATCH; i++)
		shutdown(fds[i], SHUT_WR);
	for (int i = 0; i < BATCH; i++) {
		recv(fds[i], &c, 1, 0);
		close(fds[i]);
	}
}

int main(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int listener = bench_check(socket(AF_INET, SOCK_STREAM, 0), "socket"), pooled[BATCH], made[ROUNDS + 1][BATCH];

	bench_check(bind(listener, (struct sockaddr *)&addr, len), "bind");
	bench_check(listen(listener, 128), "listen");
	bench_check(getsockname(listener, (struct sockaddr *)&addr, &len), "getsockname");
	pid_t child = bench_check(fork(), "fork");
	if (!child)
		serve(listener);
	batch(&addr, pooled);
	for (int round = 0; round <= ROUNDS; round++) {
		close_all(pooled);
		double with = batch(&addr, pooled);
		double without = batch(&addr, made[round]);
		if (round)
			printf("%.2f %.2f\n", without, with);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
