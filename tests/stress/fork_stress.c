/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A process with threads that talk without pause forks in a loop. Children make connections of their own,
 * take over a connection of their parent's, or only leave; some are spawned programs. Everything that is
 * said anywhere is checked.
 */

#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#include "common.h"

extern char **environ;

enum { CHATTERS = 3, FORKERS = 2 };

static _Atomic bool over;
static _Atomic uint64_t children, rounds, said;

static void send_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fail("send: %s", strerror(errno));
		data += n;
		size -= (size_t)n;
	}
}

static void recv_checked(int fd, uint64_t stream, uint64_t at, size_t size)
{
	char b[4096];
	while (size) {
		ssize_t n = recv(fd, b, size < sizeof(b) ? size : sizeof(b), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fail("recv at %llu: %zd %s", (unsigned long long)at, n, strerror(errno));
		size_t good = content_check(b, stream, at, (size_t)n);
		if (good != (size_t)n)
			fail("wrong byte at %llu", (unsigned long long)(at + good));
		at += (size_t)n;
		size -= (size_t)n;
	}
}

static void say(int fd, uint64_t stream, uint64_t at, size_t size)
{
	char b[4096];
	while (size) {
		size_t n = size < sizeof(b) ? size : sizeof(b);
		content_fill(b, stream, at, n);
		send_all(fd, b, n);
		at += n;
		size -= n;
	}
}

/* Both ends here, by turns. */
static void chat(int sv[2], uint64_t stream, uint64_t *at, int turns, struct rng *r)
{
	for (int i = 0; i < turns; i++) {
		size_t n = rng_size(r, 3000);
		say(sv[0], stream, *at, n);
		recv_checked(sv[1], stream, *at, n);
		say(sv[1], stream + 1, *at, n);
		recv_checked(sv[0], stream + 1, *at, n);
		*at += n;
	}
}

static void *chatter(void *arg)
{
	struct rng r = rng_from(options.seed, (uintptr_t)arg);
	while (!atomic_load(&over)) {
		int sv[2];
		uint64_t at = 0;
		local_pair(sv);
		for (int i = 0; i < 50 && !atomic_load(&over); i++) {
			chat(sv, (uintptr_t)arg * 100, &at, 20, &r);
			progress();
			atomic_fetch_add(&rounds, 20);
		}
		atomic_fetch_add(&said, at * 2);
		close(sv[0]);
		close(sv[1]);
	}
	return NULL;
}

static void reap_good(pid_t pid, const char *what)
{
	int status = 0;
	if (pid < 0)
		fail("%s: %s", what, strerror(errno));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		fail("%s: status 0x%x", what, status);
	atomic_fetch_add(&children, 1);
	progress();
}

/* The child has a whole life of its own. */
static void child_own_pair(struct rng *r)
{
	pid_t pid = fork();
	if (!pid) {
		int sv[2];
		uint64_t at = 0;
		local_pair(sv);
		chat(sv, 7, &at, 40, r);
		close(sv[0]);
		close(sv[1]);
		exit(0);
	}
	reap_good(pid, "child with its own connection");
}

/* Parent and child are the two ends of a connection that both talked on before. */
static void child_takes_over(struct rng *r)
{
	int sv[2];
	uint64_t at = 0, size = rng_size(r, 200000);
	local_pair(sv);
	chat(sv, 9, &at, (int)rng_below(r, 30), r);
	pid_t pid = fork();
	if (!pid) {
		close(sv[0]);
		recv_checked(sv[1], 9, at, size);
		say(sv[1], 10, at, size);
		exit(0);
	}
	close(sv[1]);
	say(sv[0], 9, at, size);
	recv_checked(sv[0], 10, at, size);
	char c;
	ssize_t n = recv(sv[0], &c, 1, 0);
	if (n != 0)
		fail("end of a child's connection: %zd %s", n, strerror(errno));
	close(sv[0]);
	reap_good(pid, "child that took over");
}

/* Not noticed by anybody. */
static void child_only_leaves(struct rng *r)
{
	int sv[2], way = (int)rng_below(r, 3);
	uint64_t at = 0;
	local_pair(sv);
	chat(sv, 11, &at, (int)rng_below(r, 30), r);
	pid_t pid = fork();
	if (!pid) {
		if (way == 0)
			_exit(0);
		if (way == 1)
			close(sv[0]);
		exit(0);
	}
	chat(sv, 11, &at, 10, r);
	reap_good(pid, "child that only leaves");
	chat(sv, 11, &at, 10, r);
	close(sv[0]);
	close(sv[1]);
}

static void spawn_program(struct rng *r)
{
	char name[] = "true", *argv[] = { name, NULL };
	pid_t pid = -1;
	if (rng_one_in(r, 2)) {
		int err = posix_spawnp(&pid, "true", NULL, NULL, argv, environ);
		if (err)
			fail("posix_spawnp: %s", strerror(err));
		reap_good(pid, "spawned program");
	} else if (system("true")) {
		fail("system() failed");
	}
}

static void *forker(void *arg)
{
	struct rng r = rng_from(options.seed, 1000 + (uintptr_t)arg);
	while (!time_is_up()) {
		switch (rng_below(&r, 8)) {
		case 0:
		case 1:
			child_own_pair(&r);
			break;
		case 2:
		case 3:
		case 4:
			child_takes_over(&r);
			break;
		case 5:
		case 6:
			child_only_leaves(&r);
			break;
		default:
			spawn_program(&r);
		}
	}
	return NULL;
}

static void backtraces_of_all(void)
{
	char path[64], pids[512] = "";
	backtraces(getpid());
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "r");
	if (f && fgets(pids, sizeof(pids), f))
		for (char *p = strtok(pids, " "); p; p = strtok(NULL, " "))
			backtraces((pid_t)atoi(p));
	/* Children of other threads are not in that list: the parent's stack shows whose. */
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	pthread_t c[CHATTERS], f[FORKERS];
	options_read(argc, argv, 0);
	watchdog_start(20, NULL);
	for (uintptr_t i = 0; i < CHATTERS; i++)
		c[i] = thread_start(chatter, (void *)(i + 1));
	for (uintptr_t i = 0; i < FORKERS; i++)
		f[i] = thread_start(forker, (void *)i);
	/* The chatters' progress hides a forker that stands still. */
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += (time_t)options.seconds + 15;
	for (int i = 0; i < FORKERS; i++)
		if (pthread_timedjoin_np(f[i], NULL, &end)) {
			backtraces_of_all();
			fail("a forking thread, or its child, stands still");
		}
	atomic_store(&over, true);
	for (int i = 0; i < CHATTERS; i++)
		pthread_join(c[i], NULL);
	printf("children %llu rounds %llu bytes %llu\n", (unsigned long long)children,
	       (unsigned long long)rounds, (unsigned long long)said);
	return 0;
}
