/* SPDX-License-Identifier: BSD-2-Clause */

/* A peer that dies: what it had sent arrives, then the end is seen at once. */

#include <sys/wait.h>

#include "harness.h"

static pid_t victim_pid(int k)
{
	await(k);
	return (pid_t)shared_get(0);
}

static void be_victim(int k)
{
	shared_set(0, getpid());
	post(k);
}

PAIR(shut_kill_peer_idle, 0);

SERVER(shut_kill_peer_idle)
{
	char c;
	pid_t pid = victim_pid(0);
	if (!fork()) {
		nap(50);
		kill(pid, SIGKILL);
		_exit(0);
	}
	long start = now_ms();
	R(recv(fd, &c, 1, 0));
	YES(now_ms() - start < 1000);
	say_poll_with(fd, POLLRDHUP);
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	say_poll_with(fd, POLLHUP);
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	wait(NULL);
}

CLIENT(shut_kill_peer_idle)
{
	char c;
	be_victim(0);
	recv(fd, &c, 1, 0);
}

/* What the dead had sent arrives all the same. */
PAIR(shut_kill_peer_after_send, 0);

SERVER(shut_kill_peer_after_send)
{
	bool ok;
	int err;
	pid_t pid = victim_pid(0);
	kill(pid, SIGKILL);
	say("received %zu", recv_to_end(fd, 1, 0, &ok, &err));
	say("intact %d error %s", ok, err ? errno_name(err) : "0");
}

CLIENT(shut_kill_peer_after_send)
{
	pattern_send(fd, 1, 0, 30000, 3000);
	be_victim(0);
	pause();
}

PAIR(shut_kill_peer_unread, 0);

SERVER(shut_kill_peer_unread)
{
	char c;
	send_all(fd, "abc", 3);
	pid_t pid = victim_pid(0);
	kill(pid, SIGKILL);
	R(recv(fd, &c, 1, 0));
	R(recv(fd, &c, 1, 0));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
}

CLIENT(shut_kill_peer_unread)
{
	MUST(wait_queued(fd, 3));
	be_victim(0);
	pause();
}

PAIR(shut_kill_peer_in_send, SMALL_BUF);

SERVER(shut_kill_peer_in_send)
{
	pid_t pid = victim_pid(0);
	if (!fork()) {
		nap(80);
		kill(pid, SIGKILL);
		_exit(0);
	}
	char *b = calloc(1, 1 << 20);
	MUST(b);
	ssize_t n;
	long start = now_ms();
	while ((n = send(fd, b, 1 << 20, MSG_NOSIGNAL)) > 0)
		;
	report("send in the end", n);
	YES(now_ms() - start < 1500);
	report("send after that", send(fd, b, 1, MSG_NOSIGNAL));
	free(b);
	wait(NULL);
}

CLIENT(shut_kill_peer_in_send)
{
	(void)fd;
	be_victim(0);
	pause();
}

PAIR(shut_kill_peer_in_poll, 0);

SERVER(shut_kill_peer_in_poll)
{
	pid_t pid = victim_pid(0);
	if (!fork()) {
		nap(50);
		kill(pid, SIGKILL);
		_exit(0);
	}
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };
	R(poll(&p, 1, 2000));
	say_events("poll", (unsigned)p.revents);
	char c;
	R(recv(fd, &c, 1, 0));
	wait(NULL);
}

CLIENT(shut_kill_peer_in_poll)
{
	(void)fd;
	be_victim(0);
	pause();
}

/* The peer is killed while it is writing: what came is intact. */
PAIR(shut_kill_peer_busy, 0);

SERVER(shut_kill_peer_busy)
{
	pid_t pid = victim_pid(0);
	bool ok;
	int err;
	MUST(pattern_recv(fd, 1, 0, 2 << 20, 50000));
	kill(pid, SIGKILL);
	size_t n = recv_to_end(fd, 1, 2 << 20, &ok, &err);
	say("intact %d error %s, less than everything %d", ok, err ? errno_name(err) : "0",
	    n < (size_t)1 << 30);
}

CLIENT(shut_kill_peer_busy)
{
	be_victim(0);
	pattern_send(fd, 1, 0, (size_t)1 << 30, 60000);
}
