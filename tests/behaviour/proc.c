/* SPDX-License-Identifier: BSD-2-Clause */

/* main(): lists the scenarios, plays one (starts its parts, waits, prints the transcript), or is a part. */

#include <dirent.h>
#include <getopt.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "harness.h"
#include "stage.h"

#define STAGE_ENV "BEHAVE_STAGE"

int pair_listener = -1;

static char exe[PATH_MAX];
static const char *current;
static unsigned current_flags;

const char *self_path(void)
{
	return exe;
}

const char *scenario_name(void)
{
	return current;
}

unsigned scenario_flags(void)
{
	return current_flags;
}

int reap(pid_t pid)
{
	int status = -1;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

void say_status(const char *what, int status)
{
	if (WIFEXITED(status))
		say("%s: exit %d", what, WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		say("%s: killed by SIG%s", what, sigabbrev_np(WTERMSIG(status)));
	else
		say("%s: status %d", what, status);
}

pid_t spawn_role(const char *role, unsigned flags)
{
	char part[64];
	snprintf(part, sizeof(part), "@%s", role);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid)
		return pid;
	if (flags & SPAWN_PLAIN)
		unsetenv("LD_PRELOAD");
	execl(exe, exe, current, part, (char *)NULL);
	_exit(98);
}

/* --- the parts of a PAIR --- */

static void buffers(int fd)
{
	int size = current_flags & SMALL_BUF ? 16 << 10 : 4 << 20;
	if (!(current_flags & (SMALL_BUF | BIG_BUF)))
		return;
	MUST(!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	MUST(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
}

static void pair_begin(int fd, bool server)
{
	if (current_flags & NONBLOCK)
		set_nonblock(fd, true);
	if (current_flags & COLD)
		return;
	if (server)
		warm_up_server(fd);
	else
		warm_up_client(fd);
}

/* Neither end goes away before both are done, unless one did on its own. */
static void pair_end(int fd, int mine, int other)
{
	post(mine);
	await(other);
	close(fd);
}

static void run_server(const struct scenario *s)
{
	actor_use(1, "server");
	int family = current_flags & (V6 | MAPPED) ? AF_INET6 : AF_INET;
	uint16_t port;
	pair_listener = listen_on(family, current_flags & MAPPED, &port);
	buffers(pair_listener);
	atomic_store(&stage->port, port);
	post(POST_PORT);
	int fd = accept(pair_listener, NULL, NULL);
	MUST(fd >= 0);
	pair_begin(fd, true);
	s->pair(fd);
	pair_end(fd, POST_SERVER_DONE, POST_CLIENT_DONE);
	close(pair_listener);
}

static void run_client(const struct scenario *s)
{
	actor_use(2, "client");
	await(POST_PORT);
	int family = current_flags & V6 ? AF_INET6 : AF_INET;
	struct sockaddr_storage address;
	socklen_t size = loopback(&address, family, (uint16_t)atomic_load(&stage->port));
	int fd = tcp_socket(family, 0);
	buffers(fd);
	MUST(!connect(fd, (struct sockaddr *)&address, size));
	pair_begin(fd, false);
	s->pair(fd);
	pair_end(fd, POST_CLIENT_DONE, POST_SERVER_DONE);
}

static int run_part(const struct scenario *s)
{
	if (!strcmp(s->role, "server") && s->pair) {
		run_server(s);
	} else if (!strcmp(s->role, "client") && s->pair) {
		run_client(s);
	} else {
		if (!strcmp(s->role, "solo"))
			actor_use(1, "solo");
		s->solo();
	}
	return 0;
}

static int be_part(const char *name, const char *role)
{
	const struct scenario *s = scenario_find(name, role);
	const char *path = getenv(STAGE_ENV);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (!s || fd < 0) {
		fprintf(stderr, "behave: no part %s of %s\n", role, name);
		return 97;
	}
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (stage == MAP_FAILED)
		return 97;
	return run_part(s);
}

/* --- the play as a whole --- */

static void stage_make(void)
{
	int fd = memfd_create("behave_stage", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, sizeof(*stage)) < 0)
		abort();
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (stage == MAP_FAILED)
		abort();
	fchmod(fd, 0666); /* for parts that change their user */
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	setenv(STAGE_ENV, path, 1);
}

static pid_t part_start(const struct scenario *s)
{
	bool plain = (!strcmp(s->role, "server") && current_flags & PLAIN_SERVER) ||
		     (!strcmp(s->role, "client") && current_flags & PLAIN_CLIENT);
	if (!(current_flags & FORKED))
		return spawn_role(s->role, plain ? SPAWN_PLAIN : 0);
	pid_t pid = fork();
	if (!pid)
		exit(run_part(s));
	return pid;
}

static void transcript_print(void)
{
	for (int i = 0; i < ACTORS; i++) {
		const struct actor *a = &stage->actor[i];
		size_t size = a->size < ACTOR_TEXT ? a->size : ACTOR_TEXT;
		if (!a->name[0] && !size)
			continue;
		printf("--- %s\n", a->name[0] ? a->name : "play");
		fwrite(a->text, 1, size, stdout);
	}
	fflush(stdout);
}

static int play(const char *name)
{
	const struct scenario *solo = scenario_find(name, "solo");
	const struct scenario *server = scenario_find(name, "server");
	const struct scenario *client = scenario_find(name, "client");
	pid_t pid[2] = { 0 };
	const char *what[2] = { solo ? "solo" : "server", "client" };

	if (!solo && !(server && client)) {
		fprintf(stderr, "behave: no scenario %s\n", name);
		return 2;
	}
	current = name;
	current_flags = solo ? solo->flags : server->flags;
	if (current_flags & NEEDS_ROOT && geteuid() != 0) {
		puts("SKIP needs root");
		return 77;
	}
	stage_make();
	/* Orphans of the play come to us, so that none is left behind unseen. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid[0] = part_start(solo ? solo : server);
	if (!solo)
		pid[1] = part_start(client);

	for (;;) {
		int status;
		pid_t gone = wait(&status);
		if (gone < 0 && errno == EINTR)
			continue;
		if (gone < 0)
			break;
		for (int i = 0; i < 2; i++) {
			if (gone != pid[i])
				continue;
			if (i == 0)
				post(POST_SERVER_DONE);
			else
				post(POST_CLIENT_DONE);
			if (status)
				say_status(what[i], status);
		}
	}
	transcript_print();
	return 0;
}

static int list(void)
{
	static const struct {
		unsigned flag;
		const char *name;
	} flags[] = { { MAY_BE_TCP, "may_be_tcp" },
		      { MUST_BE_TCP, "must_be_tcp" },
		      { SOME_TCP, "some_tcp" },
		      { NEEDS_ROOT, "needs_root" },
		      { DIFFERS, "differs" } };
	for (const struct scenario *s = scenario_first(); s; s = s->next) {
		if (strcmp(s->role, "solo") && !(s->pair && !strcmp(s->role, "server")))
			continue;
		printf("%s", s->name);
		for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
			if (s->flags & flags[i].flag)
				printf(" %s", flags[i].name);
		puts("");
	}
	return 0;
}

int main(int argc, char **argv)
{
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = 0;
	if (argc == 2 && !strcmp(argv[1], "--list"))
		return list();
	if (argc == 3 && argv[2][0] == '@') {
		const struct scenario *s = scenario_find(argv[1], "solo");
		if (!s)
			s = scenario_find(argv[1], "server");
		current = argv[1];
		current_flags = s ? s->flags : 0;
		return be_part(argv[1], argv[2] + 1);
	}
	if (argc == 2 && argv[1][0] != '-')
		return play(argv[1]);
	fprintf(stderr, "usage: behave --list | behave SCENARIO\n");
	return 2;
}
