/* SPDX-License-Identifier: BSD-2-Clause */

/* Handing a connection to another program: exec, spawn, SCM_RIGHTS; and starting programs meanwhile. */

#include <spawn.h>
#include <sys/wait.h>

#include "harness.h"

extern char **environ;

enum { BEFORE = 5000, REST = 300000 };

/* The program that goes on with an inherited connection: reads the rest, writes its own part. */
static void reader_role(void)
{
	bool ok;
	int err, fd = (int)shared_get(0);
	actor_use(3, "program");
	size_t n = recv_to_end(fd, 1, BEFORE, &ok, &err);
	say("rest %zu intact %d error %d", n, ok, err);
	pattern_send(fd, 2, BEFORE, REST, 10000);
	say("written");
}

static void rest_server(int fd)
{
	bool ok;
	int err;
	pattern_send(fd, 1, 0, BEFORE + REST, 20000);
	shutdown(fd, SHUT_WR);
	size_t n = recv_to_end(fd, 2, 0, &ok, &err);
	say("received %zu intact %d error %d", n, ok, err);
}

static void rest_begin(int fd)
{
	pattern_send(fd, 2, 0, BEFORE, 1000);
	say("before intact %d", pattern_recv(fd, 1, 0, BEFORE, 700));
	shared_set(0, fd);
}

#define REST_TEST(name)                                                                            \
	ROLE(name, reader)                                                                         \
	{                                                                                          \
		reader_role();                                                                     \
	}                                                                                          \
	PAIR(name, 0);                                                                             \
	SERVER(name)                                                                               \
	{                                                                                          \
		rest_server(fd);                                                                   \
	}                                                                                          \
	CLIENT(name)

/* fork and exec, with the library there too. */
REST_TEST(exec_child_inherits)
{
	rest_begin(fd);
	pid_t child = spawn_role("reader", 0);
	close(fd);
	say_status("program", reap(child));
}

/* ... and a program without it. */
REST_TEST(exec_child_inherits_plain)
{
	rest_begin(fd);
	pid_t child = spawn_role("reader", SPAWN_PLAIN);
	close(fd);
	say_status("program", reap(child));
}

/* The process itself becomes the other program. */
REST_TEST(exec_in_place)
{
	rest_begin(fd);
	post(POSTS - 1);
	execl(self_path(), self_path(), scenario_name(), "@reader", (char *)NULL);
}

REST_TEST(exec_in_place_plain)
{
	rest_begin(fd);
	unsetenv("LD_PRELOAD");
	char path[] = "@reader";
	char *argv[] = { (char *)(uintptr_t)self_path(), (char *)(uintptr_t)scenario_name(), path,
			 NULL };
	execve(self_path(), argv, environ);
}

/* An environment of its own that does not load the library: the caller's is not asked. */
REST_TEST(exec_environment)
{
	rest_begin(fd);
	char stage[128], part[] = "@reader";
	snprintf(stage, sizeof(stage), "BEHAVE_STAGE=%s", getenv("BEHAVE_STAGE"));
	char *argv[] = { (char *)(uintptr_t)self_path(), (char *)(uintptr_t)scenario_name(), part,
			 NULL };
	char *env[] = { stage, NULL };
	pid_t child;
	R(posix_spawn(&child, self_path(), NULL, NULL, argv, env));
	close(fd);
	say_status("program", reap(child));
}

REST_TEST(exec_vfork)
{
	rest_begin(fd);
	pid_t child = vfork();
	if (!child) {
		execl(self_path(), self_path(), scenario_name(), "@reader", (char *)NULL);
		_exit(98);
	}
	close(fd);
	say_status("program", reap(child));
}

/* cat reads the rest from its standard input. */
PAIR(exec_cat, 0);

SERVER(exec_cat)
{
	pattern_send(fd, 1, 0, BEFORE + REST, 20000);
	shutdown(fd, SHUT_WR);
}

CLIENT(exec_cat)
{
	int pipes[2];
	char cat[] = "cat", *argv[] = { cat, NULL };
	pid_t child;
	posix_spawn_file_actions_t actions;
	say("before intact %d", pattern_recv(fd, 1, 0, BEFORE, 700));
	MUST(!pipe2(pipes, O_CLOEXEC));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd, 0);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
	R(posix_spawnp(&child, "cat", &actions, NULL, argv, environ));
	close(pipes[1]);
	close(fd);
	static char b[65536];
	size_t at = BEFORE;
	bool ok = true;
	ssize_t n;
	while ((n = read(pipes[0], b, sizeof(b))) > 0) {
		ok = ok && pattern_check(b, 1, at, (size_t)n);
		at += (size_t)n;
	}
	say("rest %zu intact %d", at - BEFORE, ok);
	say_status("cat", reap(child));
}

/* With close-on-exec the connection ends with the program's old life. */
PAIR(exec_cloexec, 0);

SERVER(exec_cloexec)
{
	char b[16] = "";
	recv_all(fd, b, 5);
	say("got %s", b);
	R(recv(fd, b, 1, 0));
}

CLIENT(exec_cloexec)
{
	MUST(!fcntl(fd, F_SETFD, FD_CLOEXEC));
	send_all(fd, "hello", 5);
	execl("/bin/true", "true", (char *)NULL);
}

/* An exec that fails changes nothing. */
PAIR(exec_fails, 0);

SERVER(exec_fails)
{
	say("intact %d", pattern_recv(fd, 1, 0, 200000, 7000));
	pattern_send(fd, 2, 0, 200000, 7000);
}

CLIENT(exec_fails)
{
	char *argv[] = { NULL, NULL };
	pattern_send(fd, 1, 0, 100000, 1000);
	R(execv("/nonexistent", argv));
	R(execv("/proc/self/status", argv));
	pid_t child;
	R(posix_spawn(&child, "/nonexistent", NULL, NULL, argv, environ));
	pattern_send(fd, 1, 100000, 100000, 1000);
	say("intact %d", pattern_recv(fd, 2, 0, 200000, 7000));
}

static pid_t vfork_true(void)
{
	pid_t child = vfork();
	if (!child) {
		execlp("true", "true", (char *)NULL);
		_exit(98);
	}
	return child;
}

/* Programs that have nothing to do with the connection come and go. */
PAIR(exec_unrelated_programs, 0);

SERVER(exec_unrelated_programs)
{
	bool ok = true;
	for (size_t i = 0; i < 6; i++) {
		ok = ok && pattern_recv(fd, 1, i * 10000, 10000, 1000);
		pattern_send(fd, 2, i * 10000, 10000, 1000);
	}
	say("intact %d", ok);
}

CLIENT(exec_unrelated_programs)
{
	char line[64] = "", false_[] = "false", *argv[] = { false_, NULL };
	bool ok = true;
	for (size_t i = 0; i < 6; i++) {
		pid_t child = -1;
		pattern_send(fd, 1, i * 10000, 10000, 1000);
		if (i == 0)
			say_status("system", system("exit 3"));
		if (i == 1) {
			FILE *f = popen("echo popen; exit 4", "r");
			MUST(f && fgets(line, sizeof(line), f));
			say("%.5s", line);
			say_status("pclose", pclose(f));
		}
		if (i == 2) {
			R(posix_spawnp(&child, "false", NULL, NULL, argv, environ));
			say_status("spawned", reap(child));
		}
		if (i == 3) {
			FILE *f = popen("cat >/dev/null", "w");
			MUST(f && fputs("x", f) >= 0);
			say_status("pclose", pclose(f));
		}
		if (i == 4) {
			say_status("vfork", reap(vfork_true()));
		}
		ok = ok && pattern_recv(fd, 2, i * 10000, 10000, 1000);
	}
	say("intact %d", ok);
	R(waitpid(-1, NULL, 0));
}

/* A new program sees the descriptors that it would see without the library (which may have some of its own
 * in the program, when it is loaded there). */
PAIR(exec_sees_no_more_fds, 0);

SERVER(exec_sees_no_more_fds)
{
	char c;
	R(recv(fd, &c, 1, 0));
}

CLIENT(exec_sees_no_more_fds)
{
	char line[512] = "";
	FILE *f = popen("env -u LD_PRELOAD ls /proc/self/fd | tr '\\n' ' '", "r");
	MUST(f && fgets(line, sizeof(line), f));
	pclose(f);
	say("fds %s", line);
	shutdown(fd, SHUT_WR);
}

static void send_fd(int unix_fd, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = "", byte = 'f';
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	MUST(sendmsg(unix_fd, &m, 0) == 1);
}

static int recv_fd(int unix_fd)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	int fd = -1;
	MUST(recvmsg(unix_fd, &m, 0) == 1);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	MUST(c && c->cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void passed_role(void)
{
	int fd = recv_fd((int)shared_get(1));
	actor_use(3, "receiver");
	pattern_send(fd, 2, BEFORE, REST, 3000);
	bool ok;
	int err;
	size_t n = recv_to_end(fd, 1, BEFORE, &ok, &err);
	say("rest %zu intact %d error %d", n, ok, err);
}

static void pass(int fd, unsigned flags)
{
	int sv[2];
	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	shared_set(1, sv[1]);
	MUST(!fcntl(fd, F_SETFD, FD_CLOEXEC) && !fcntl(sv[0], F_SETFD, FD_CLOEXEC));
	pid_t child = spawn_role("receiver", flags);
	close(sv[1]);
	rest_begin(fd);
	send_fd(sv[0], fd);
	close(fd);
	say_status("receiver", reap(child));
}

#define PASS_TEST(name, flags)                                                                     \
	ROLE(name, receiver)                                                                       \
	{                                                                                          \
		passed_role();                                                                     \
	}                                                                                          \
	PAIR(name, 0);                                                                             \
	SERVER(name)                                                                               \
	{                                                                                          \
		rest_server(fd);                                                                   \
	}                                                                                          \
	CLIENT(name)                                                                               \
	{                                                                                          \
		pass(fd, flags);                                                                   \
	}

PASS_TEST(exec_fd_passed, 0)
PASS_TEST(exec_fd_passed_plain, SPAWN_PLAIN)

/* Passed within the process: a new number for the same connection. */
PAIR(exec_fd_passed_to_self, 0);

SERVER(exec_fd_passed_to_self)
{
	rest_server(fd);
}

CLIENT(exec_fd_passed_to_self)
{
	int sv[2];
	bool ok;
	int err;
	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	rest_begin(fd);
	send_fd(sv[0], fd);
	int twin = recv_fd(sv[1]);
	close(fd);
	size_t n = recv_to_end(twin, 1, BEFORE, &ok, &err);
	say("rest %zu intact %d error %d", n, ok, err);
	pattern_send(twin, 2, BEFORE, REST, 10000);
	close(twin);
}
