/* SPDX-License-Identifier: BSD-2-Clause */

/* The life of descriptors: dup, close, close_range, numbers used again. */

#include <dirent.h>
#include <dlfcn.h>
#include <linux/close_range.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "harness.h"

static void ask(const char *what, int fd)
{
	char b[16] = "";
	send_all(fd, "hello", 5);
	recv_all(fd, b, 5);
	say("%s: %s", what, b);
}

PAIR(life_dup, 0);

SERVER(life_dup)
{
	say("end %zd", echo_until_end(fd));
}

CLIENT(life_dup)
{
	int two = dup(fd), three = fcntl(fd, F_DUPFD, 50), four = fcntl(fd, F_DUPFD_CLOEXEC, 60);
	char b[16] = "";
	say("numbers %d %d", three, four);
	say("cloexec %d %d %d", fcntl(two, F_GETFD), fcntl(three, F_GETFD), fcntl(four, F_GETFD));
	ask("fd", fd);
	ask("two", two);
	/* One stream, whatever number is used. */
	send_all(three, "ab", 2);
	send_all(fd, "cd", 2);
	recv_all(two, b, 1);
	recv_all(four, b + 1, 3);
	say("mixed %s", b);
	/* Status flags are shared, descriptor flags are not. */
	set_nonblock(three, true);
	R(recv(fd, b, sizeof(b), 0));
	R(recv(four, b, sizeof(b), 0));
	set_nonblock(fd, false);
	R(close(fd));
	R(recv(fd, b, 1, 0));
	ask("two after close", two);
	R(close(two));
	R(close(three));
	ask("the last", four);
	R(close(four));
	R(close(four));
}

PAIR(life_dup2, SOME_TCP);

SERVER(life_dup2)
{
	say("end %zd", echo_until_end(fd));
}

CLIENT(life_dup2)
{
	int sv[2], pipes[2];
	char b[16] = "";
	self_pair(sv);
	MUST(!pipe(pipes));
	/* Over another accelerated one: that one is closed. */
	R(dup2(fd, sv[0]) == sv[0]);
	R(recv(sv[1], b, sizeof(b), 0));
	ask("through the other's number", sv[0]);
	/* Onto itself. */
	R(dup2(fd, fd) == fd);
	R(dup3(fd, fd, 0));
	ask("onto itself", fd);
	/* Over a plain one, and with flags. */
	R(dup3(fd, pipes[0], O_CLOEXEC) == pipes[0]);
	R(fcntl(pipes[0], F_GETFD));
	ask("through the pipe's number", pipes[0]);
	R(dup3(fd, 99, 0x1234));
	R(dup2(fd, -1));
	R(dup2(-1, fd));
	/* A plain one over it. */
	int event = eventfd(5, 0);
	uint64_t value = 0;
	R(dup2(event, fd) == fd);
	R(read(fd, &value, 8));
	say("value %llu", (unsigned long long)value);
	R(send(fd, "x", 1, 0));
	ask("still", sv[0]);
	close(sv[0]);
	ask("still", pipes[0]);
	R(close(pipes[0]));
}

PAIR(life_stdin_stdout, 0);

SERVER(life_stdin_stdout)
{
	say("end %zd", echo_until_end(fd));
}

CLIENT(life_stdin_stdout)
{
	/* As inetd does. */
	char b[16] = "";
	MUST(dup2(fd, 0) == 0 && dup2(fd, 1) == 1);
	R(close(fd));
	R(write(1, "hello", 5));
	recv_all(0, b, 5);
	say("got %s", b);
	close(0);
	R(write(1, "again", 5));
	recv_all(1, b, 5);
	say("got %s", b);
	close(1);
}

/* Numbers of closed connections serve pipes, files, eventfds and new connections. */
SOLO(life_number_reuse, 0)
{
	for (int round = 0; round < 20; round++) {
		int sv[2], pipes[2], listener;
		uint16_t port;
		char b[16] = "";
		self_pair(sv);
		int one = sv[0] < sv[1] ? sv[0] : sv[1];
		close(sv[0]);
		close(sv[1]);
		bool ok = true;
		switch (round % 4) {
		case 0:
			MUST(!pipe(pipes));
			ok = ok && (pipes[0] == one || pipes[1] == one || one > pipes[1]);
			ok = ok && write(pipes[1], "abc", 3) == 3 && read(pipes[0], b, 16) == 3;
			ok = ok && send(pipes[1], "x", 1, 0) == -1 && errno == ENOTSOCK;
			close(pipes[0]);
			close(pipes[1]);
			break;
		case 1:
			pipes[0] = open("/proc/self/exe", O_RDONLY);
			ok = ok && read(pipes[0], b, 4) == 4 && !memcmp(b, "\177ELF", 4);
			ok = ok && lseek(pipes[0], 0, SEEK_SET) == 0;
			ok = ok && recv(pipes[0], b, 1, 0) == -1 && errno == ENOTSOCK;
			close(pipes[0]);
			break;
		case 2:
			listener = listen_on(AF_INET, false, &port);
			ok = ok && recv(listener, b, 1, 0) == -1 && errno == ENOTCONN;
			close(listener);
			break;
		case 3:
			MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, pipes));
			ok = ok && send(pipes[0], "abc", 3, 0) == 3 &&
			     recv(pipes[1], b, 16, 0) == 3;
			ok = ok && read(-1, b, 1) == -1 && errno == EBADF;
			close(pipes[0]);
			ok = ok && recv(pipes[1], b, 16, 0) == 0;
			close(pipes[1]);
		}
		if (!ok)
			say("round %d wrong: %s", round, errno_name(errno));
	}
	say("done");
}

/* Closed behind the library's back, by a raw system call, and used again. */
PAIR(life_raw_close, 0);

SERVER(life_raw_close)
{
	char c;
	R(recv(fd, &c, 1, 0));
}

CLIENT(life_raw_close)
{
	int pipes[2];
	char b[8];
	R(syscall(SYS_close, fd));
	MUST(!pipe(pipes));
	YES(pipes[0] == fd);
	R(write(pipes[1], "abc", 3));
	R(read(pipes[0], b, sizeof(b)));
	R(send(pipes[0], "x", 1, 0));
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };
	R(poll(&p, 1, 0));
	R(write(pipes[1], "x", 1));
	R(poll(&p, 1, 0));
	R(close(pipes[0]));
	R(close(pipes[1]));
}

/* As before, but the number becomes a new connection. */
SOLO(life_raw_close_new_connection, SOME_TCP)
{
	int sv[2], next[2];
	char b[8];
	self_pair(sv);
	syscall(SYS_close, sv[0]);
	R(recv(sv[1], b, 1, 0));
	syscall(SYS_close, sv[1]);
	self_pair(next);
	R(send(next[0], "abc", 3, 0));
	R(recv(next[1], b, sizeof(b), 0));
	R(send(next[1], "de", 2, 0));
	R(recv(next[0], b, sizeof(b), 0));
	R(close(next[0]));
	R(recv(next[1], b, sizeof(b), 0));
}

static bool open_fd(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

PAIR(life_close_range, 0);

SERVER(life_close_range)
{
	say("end %zd", echo_until_end(fd));
}

CLIENT(life_close_range)
{
	int a = fcntl(fd, F_DUPFD, 20), b = fcntl(fd, F_DUPFD, 25), c = fcntl(fd, F_DUPFD, 30);
	close(fd);
	R(close_range(20, 22, 0));
	say("open %d %d %d", open_fd(a), open_fd(b), open_fd(c));
	ask("after the first", b);
	R(close_range(25, 25, CLOSE_RANGE_CLOEXEC));
	say("cloexec %d %d", fcntl(b, F_GETFD), fcntl(c, F_GETFD));
	R(close_range(5, 4, 0));
	R(close_range(3, 4, 0x4000));
	ask("after the second", c);
	/* Closes everything, or so it seems; new connections still work. */
	R(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC));
	ask("cloexec on all", c);
	R(close_range(3, ~0u, 0));
	say("open %d %d", open_fd(b), open_fd(c));
	int sv[2];
	self_pair(sv);
	say("lowest number %d", sv[0] < sv[1] ? sv[0] : sv[1]);
	pattern_send(sv[0], 1, 0, 10000, 10000);
	say("intact %d", pattern_recv(sv[1], 1, 0, 10000, 10000));
}

PAIR(life_closefrom, 0);

SERVER(life_closefrom)
{
	say("end %zd", echo_until_end(fd));
}

CLIENT(life_closefrom)
{
	int high = fcntl(fd, F_DUPFD, 40), low = fcntl(fd, F_DUPFD, 10);
	closefrom(20);
	say("open %d %d %d", open_fd(fd), open_fd(low), open_fd(high));
	ask("after the first", low);
	closefrom(3);
	say("open %d %d", open_fd(fd), open_fd(low));
	int sv[2];
	self_pair(sv);
	pattern_send(sv[0], 1, 0, 10000, 10000);
	say("intact %d", pattern_recv(sv[1], 1, 0, 10000, 10000));
}

/* "Close everything" loops, and a connection that was meant to live through them. */
PAIR(life_close_loops, SOME_TCP);

SERVER(life_close_loops)
{
	say("end %zd", echo_until_end(fd));
}

CLIENT(life_close_loops)
{
	ask("at first", fd);
	struct rlimit limit;
	MUST(!getrlimit(RLIMIT_NOFILE, &limit));
	int top = limit.rlim_cur < 65536 ? (int)limit.rlim_cur : 65536;
	for (int i = 3; i < top; i++)
		if (i != fd)
			close(i);
	ask("after the loop", fd);
	int sv[2];
	self_pair(sv);
	pattern_send(sv[0], 1, 0, 10000, 10000);
	say("intact %d", pattern_recv(sv[1], 1, 0, 10000, 10000));
	close(sv[0]);
	close(sv[1]);
	DIR *dir = opendir("/proc/self/fd");
	int numbers[256], n = 0;
	for (struct dirent *e; (e = readdir(dir));)
		if (n < 256 && e->d_name[0] != '.')
			numbers[n++] = atoi(e->d_name);
	int mine = dirfd(dir);
	for (int i = 0; i < n; i++)
		if (numbers[i] > 2 && numbers[i] != fd && numbers[i] != mine)
			close(numbers[i]);
	closedir(dir);
	ask("after the /proc loop", fd);
	self_pair(sv);
	pattern_send(sv[0], 1, 0, 10000, 10000);
	say("intact %d", pattern_recv(sv[1], 1, 0, 10000, 10000));
	close(fd);
}

/* What the kernel says about the descriptor stays true. */
PAIR(life_identity, 0);

SERVER(life_identity)
{
	char c;
	R(recv(fd, &c, 1, 0));
}

CLIENT(life_identity)
{
	struct stat st;
	char link[64], path[64];
	R(fstat(fd, &st));
	say("socket %d", S_ISSOCK(st.st_mode));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = 0;
	say("link %.7s", link);
	R(isatty(fd));
	R(lseek(fd, 0, SEEK_SET));
	R(fsync(fd));
	R(ftruncate(fd, 0));
	R(fchmod(fd, 0600));
	R(fcntl(fd, F_GETFD));
	R(fcntl(fd, F_SETFD, FD_CLOEXEC));
	R(fcntl(fd, F_GETFD));
	R(fcntl(fd, F_GETOWN));
	R(fcntl(fd, 9999));
	R(open(path, O_RDWR));
	R(close(-1));
	R(close(4321));
	R(close(fd));
}

/* No descriptor and no number is lost over many connections. */
static int open_count(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

SOLO(life_no_leak, SOME_TCP)
{
	int sv[2], before = 0;
	for (int i = 0; i < 400; i++) {
		if (i % 8)
			self_pair_cold(sv);
		else
			self_pair(sv);
		close(sv[0]);
		close(sv[1]);
		if (i == 100) {
			nap(50);
			before = open_count();
		}
	}
	nap(50);
	int after = open_count();
	say("more descriptors %d", after > before + 2);
	say("next number %d", dup(0));
}

/* Threads that resolve names (libc closes its own sockets unseen) while others use connections. */
static void resolver(struct worker *w)
{
	for (int i = 0; i < 30; i++) {
		struct addrinfo *list = NULL, hints = { .ai_socktype = SOCK_STREAM };
		w->result += getaddrinfo("localhost", "80", &hints, &list) == 0;
		if (list)
			freeaddrinfo(list);
	}
}

static void talker(struct worker *w)
{
	for (int i = 0; i < 30; i++) {
		int sv[2];
		if (i % 5)
			self_pair_cold(sv);
		else
			self_pair(sv);
		pattern_send(sv[0], (uint32_t)w->arg, 0, 1000, 1000);
		w->result += pattern_recv(sv[1], (uint32_t)w->arg, 0, 1000, 1000);
		close(sv[0]);
		close(sv[1]);
	}
}

SOLO(life_resolver_threads, SOME_TCP)
{
	struct worker w[8];
	memset(w, 0, sizeof(w));
	for (int i = 0; i < 8; i++) {
		w[i] = (struct worker){ .run = i % 2 ? talker : resolver, .arg = i };
		worker_start(&w[i]);
	}
	for (int i = 0; i < 8; i++) {
		worker_join(&w[i]);
		say("%s right %ld", i % 2 ? "talker" : "resolver", w[i].result);
	}
}

/* At the limit of descriptors: errors as without the library. */
SOLO(life_fd_limit, MAY_BE_TCP)
{
	struct rlimit limit = { 16, 16 };
	int sv[2], n = 0;
	self_pair(sv);
	MUST(!setrlimit(RLIMIT_NOFILE, &limit));
	while (dup(0) >= 0)
		n++;
	say("last error %s", errno_name(errno));
	R(socket(AF_INET, SOCK_STREAM, 0));
	R(dup(sv[0]));
	pattern_send(sv[0], 1, 0, 10000, 10000);
	say("intact %d", pattern_recv(sv[1], 1, 0, 10000, 10000));
	close(15);
	close(14);
	close(13);
	self_pair_cold(sv);
	pattern_send(sv[0], 1, 0, 10000, 100);
	say("intact %d", pattern_recv(sv[1], 1, 0, 10000, 100));
}

/* Pitfall 44: descriptors that libc closes by itself, without a call that could be seen from outside; their
 * numbers then serve other things. */
static bool serves(int number, bool socket_expected)
{
	int type = 0;
	socklen_t size = sizeof(type);
	bool is_socket = !getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &size);
	return is_socket == socket_expected;
}

SOLO(life_closed_by_libc, SOME_TCP)
{
	char b[8] = "", path[] = "/proc/self/exe";
	int sv[2];

	/* fclose: the number becomes a pipe */
	self_pair(sv);
	int filler = dup(0); /* the listener's number is free again, and lower */
	int number = sv[0] < sv[1] ? sv[0] : sv[1], other = number == sv[0] ? sv[1] : sv[0],
	    pipes[2];
	FILE *f = fdopen(number, "r+");
	MUST(f);
	R(fprintf(f, "abc") == 3 && !fflush(f));
	R(recv(other, b, sizeof(b), 0));
	R(fclose(f));
	R(recv(other, b, sizeof(b), 0));
	MUST(!pipe(pipes));
	YES(pipes[0] == number && serves(number, false));
	R(write(pipes[1], "xyz", 3));
	R(read(number, b, sizeof(b)));
	R(send(number, b, 1, MSG_NOSIGNAL));
	close(pipes[0]);
	close(pipes[1]);
	close(other);
	close(filler);

	/* freopen: the number becomes a file, within one call */
	self_pair(sv);
	f = fdopen(sv[0], "r+");
	MUST(f);
	R(fprintf(f, "abc") == 3 && !fflush(f));
	f = freopen(path, "r", f);
	MUST(f);
	YES(serves(fileno(f), false));
	YES(fread(b, 1, 4, f) == 4 && !memcmp(b, "\177ELF", 4));
	YES(lseek(fileno(f), 0, SEEK_SET) == 0 && read(fileno(f), b, 4) == 4 &&
	    !memcmp(b, "\177ELF", 4));
	R(recv(sv[1], b, 3, 0));
	R(recv(sv[1], b, sizeof(b), 0));
	R(fclose(f));
	close(sv[1]);

	/* closedir: the number of a folder becomes a connection, and the other way round */
	for (int i = 0; i < 3; i++) {
		filler = dup(0); /* for the listener */
		DIR *dir = opendir("/proc/self");
		MUST(dir);
		number = dirfd(dir);
		close(filler);
		R(closedir(dir));
		self_pair(sv);
		YES(sv[0] == number && serves(number, true));
		pattern_send(sv[0], 1, 0, 10000, 10000);
		say("intact %d", pattern_recv(sv[1], 1, 0, 10000, 10000));
		close(sv[0]);
		close(sv[1]);
		dir = opendir("/proc/self");
		MUST(dir);
		YES(serves(dirfd(dir), false) && readdir(dir) != NULL);
		closedir(dir);
	}
}

/* libc's own syscall(), which the library does not stand in front of: as an instruction in the program would be. */
static long (*hidden_call(void))(long, ...)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	MUST(libc);
	return (long (*)(long, ...))dlsym(libc, "syscall");
}

/* Pitfall 18: closed so that nobody can see it, and the number used again: for a pipe, a file, another connection. */
SOLO(life_hidden_close, SOME_TCP)
{
	long (*hidden)(long, ...) = hidden_call();
	int sv[2], pipes[2], next[2], event;
	char b[8] = "";
	uint64_t value = 0;

	self_pair(sv);
	MUST(dup(0) >= 0); /* the listener's number is free again, and lower */
	R(hidden(SYS_close, sv[0]));
	MUST(!pipe(pipes));
	YES(pipes[0] == sv[0]);
	R(write(pipes[1], "abc", 3));
	R(read(pipes[0], b, sizeof(b)));
	R(recv(sv[1], b, sizeof(b), 0));
	R(close(pipes[0]));
	R(hidden(SYS_close, sv[1]));
	R(close(pipes[1]));

	self_pair(sv);
	MUST(dup(0) >= 0);
	R(hidden(SYS_close, sv[1]));
	event = eventfd(7, 0);
	YES(event == sv[1]);
	R(read(event, &value, 8));
	say("value %llu", (unsigned long long)value);
	R(recv(sv[0], b, sizeof(b), 0));
	R(hidden(SYS_close, sv[0]));
	R(close(event));

	self_pair(sv);
	R(hidden(SYS_close, sv[0]));
	R(hidden(SYS_close, sv[1]));
	self_pair(next);
	pattern_send(next[0], 1, 0, 50000, 10000);
	say("intact %d", pattern_recv(next[1], 1, 0, 50000, 3000));
	pattern_send(next[1], 2, 0, 50000, 10000);
	say("intact %d", pattern_recv(next[0], 2, 0, 50000, 3000));
	R(close(next[0]));
	R(recv(next[1], b, sizeof(b), 0));
}
