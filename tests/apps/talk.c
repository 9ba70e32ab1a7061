/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A client and a server that need nothing but sockets: no /proc, no memfd, no threads, no files. They play
 * ping-pong until the library had its time, then move 2 MiB each way and tell whether all was intact; the
 * server also tells how many descriptors it can open, which the library must not change.
 *
 *   talk                       both, in a parent and a child
 *   talk server PORT | talk client PORT
 *   talk long MILLISECONDS     both, with a long ping-pong
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 2 << 20 };

static char buffer[65536];

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static long now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);
		if (r <= 0)
			die("send");
		p += r;
		n -= (size_t)r;
	}
}

static void recv_all(int fd, char *p, size_t n)
{
	while (n) {
		ssize_t r = recv(fd, p, n, 0);
		if (r <= 0)
			die("recv");
		p += r;
		n -= (size_t)r;
	}
}

static unsigned char content(size_t at)
{
	return (unsigned char)(at * 2654435761u >> 16);
}

static void send_content(int fd)
{
	for (size_t at = 0; at < SIZE; at += sizeof(buffer)) {
		for (size_t i = 0; i < sizeof(buffer); i++)
			buffer[i] = (char)content(at + i);
		send_all(fd, buffer, sizeof(buffer));
	}
}

static bool recv_content(int fd)
{
	bool good = true;
	for (size_t at = 0; at < SIZE; at += sizeof(buffer)) {
		recv_all(fd, buffer, sizeof(buffer));
		for (size_t i = 0; i < sizeof(buffer); i++)
			good = good && (unsigned char)buffer[i] == content(at + i);
	}
	return good;
}

static void client(uint16_t port, long ms)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	for (long end = now_ms() + ms; now_ms() < end;) {
		char c = 'p';
		send_all(fd, &c, 1);
		recv_all(fd, &c, 1);
	}
	send_all(fd, "q", 1);
	recv_all(fd, buffer, 1);
	send_content(fd);
	printf("client: intact %d\n", recv_content(fd));
	if (recv(fd, buffer, 1, 0) != 0)
		die("client: end");
	close(fd);
	fflush(stdout);
}

/* Waits for a client; if it is a child of ours, only as long as it lives. */
static int await_client(int listener, pid_t child)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	int status;
	while (poll(&p, 1, 100) < 1)
		if (child && waitpid(child, &status, WNOHANG) == child) {
			printf("client's status 0x%x\n", status);
			exit(1);
		}
	return accept(listener, NULL, NULL);
}

static void server(int listener, pid_t child)
{
	int on = 1, fd = await_client(listener, child);
	char c = 0;
	if (fd < 0)
		die("accept");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	while (c != 'q') {
		recv_all(fd, &c, 1);
		send_all(fd, &c, 1);
	}
	printf("server: intact %d\n", recv_content(fd));
	send_content(fd);
	close(fd);
	int n = 0, last = -1, next;
	while (n < 100 && (next = dup(listener)) >= 0) {
		last = next;
		n++;
	}
	printf("server: %d descriptors, last number %d, then %s\n", n, last,
	       n < 100 ? strerror(errno) : "more");
	fflush(stdout);
}

static int listen_on(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(*port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) < 0 || listen(fd, 5) < 0)
		die("listen");
	if (getsockname(fd, (struct sockaddr *)&a, &size) < 0)
		die("getsockname");
	*port = ntohs(a.sin_port);
	return fd;
}

int main(int argc, char **argv)
{
	uint16_t port = argc > 2 ? (uint16_t)atoi(argv[2]) : 0;
	int status = 0;
	if (argc == 3 && !strcmp(argv[1], "client")) {
		client(port, 200);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "server")) {
		server(listen_on(&port), 0);
		return 0;
	}
	long ms = argc == 3 ? atol(argv[2]) : 200;
	port = 0;
	int listener = listen_on(&port);
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		close(listener);
		client(port, ms);
		exit(0);
	}
	server(listener, child);
	waitpid(child, &status, 0);
	printf("client's status 0x%x\n", status);
	return 0;
}
