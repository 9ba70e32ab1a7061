/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * confine OPTION... -- COMMAND: runs a command where something is missing.
 *
 *   --deny NAME=ERRNO   a system call fails (seccomp): memfd_create, unix (socket(AF_UNIX)), netlink, thread
 *                       (clone for threads), eventfd, bpf, userfaultfd, io_uring, ptrace, futex_waitv, pidfd,
 *                       process_vm, fallocate
 *   --limit NAME=N      a resource limit: nofile, memlock, fsize, as, stack, core
 *   --uid N             another user and group
 *   --netns             an empty network namespace; --lo brings its loopback up
 *   --userns --pidns    other namespaces
 */

#include <errno.h>
#include <getopt.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "confine: %s: %s\n", what, strerror(errno));
	exit(125);
}

#define LOAD(field)		   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, n)	   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (n))
#define SKIP_UNLESS_BITS(value, n) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (value), 0, (n))
#define ANSWER(err)		   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((err)&SECCOMP_RET_DATA))
#define ALLOW			   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void filter(struct sock_filter *code, size_t n)
{
	struct sock_fprog program = { .len = (unsigned short)n, .filter = code };
	check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

static void deny_call(long nr, int err)
{
	struct sock_filter code[] = { LOAD(nr), SKIP_UNLESS((unsigned)nr, 1), ANSWER(err), ALLOW };
	filter(code, sizeof(code) / sizeof(code[0]));
}

static void deny_argument(long nr, unsigned value, int err)
{
	struct sock_filter code[] = { LOAD(nr),	     SKIP_UNLESS((unsigned)nr, 3),
				      LOAD(args[0]), SKIP_UNLESS(value, 1),
				      ANSWER(err),   ALLOW };
	filter(code, sizeof(code) / sizeof(code[0]));
}

static void deny_thread(int err)
{
	/* clone3's flags are in memory, where a filter cannot look: libc goes back to clone on ENOSYS. */
	struct sock_filter code[] = { LOAD(nr),	      SKIP_UNLESS(SYS_clone3, 1),
				      ANSWER(ENOSYS), SKIP_UNLESS(SYS_clone, 3),
				      LOAD(args[0]),  SKIP_UNLESS_BITS(CLONE_THREAD, 1),
				      ANSWER(err),    ALLOW };
	filter(code, sizeof(code) / sizeof(code[0]));
}

static void deny(char *text)
{
	static const struct {
		const char *name;
		long nr[4];
	} calls[] = {
		{ "memfd_create", { SYS_memfd_create } },
		{ "eventfd", { SYS_eventfd2, SYS_eventfd } },
		{ "bpf", { SYS_bpf } },
		{ "userfaultfd", { SYS_userfaultfd } },
		{ "io_uring", { SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register } },
		{ "ptrace", { SYS_ptrace } },
		{ "futex_waitv", { 449 } },
		{ "pidfd", { SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal } },
		{ "process_vm", { SYS_process_vm_readv, SYS_process_vm_writev } },
		{ "fallocate", { SYS_fallocate } },
		{ "membarrier", { SYS_membarrier } },
		{ "rseq", { SYS_rseq } },
		{ "epoll_pwait2", { SYS_epoll_pwait2 } },
		{ "close_range", { SYS_close_range } },
	};
	char *equals = strchr(text, '=');
	int err = equals ? atoi(equals + 1) : EPERM;
	if (equals)
		*equals = 0;
	if (!strcmp(text, "unix"))
		deny_argument(SYS_socket, AF_UNIX, err);
	else if (!strcmp(text, "netlink"))
		deny_argument(SYS_socket, AF_NETLINK, err);
	else if (!strcmp(text, "thread"))
		deny_thread(err);
	else {
		int found = 0;
		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			for (int k = 0; k < 4 && !strcmp(calls[i].name, text); k++)
				if (calls[i].nr[k] || !k) {
					deny_call(calls[i].nr[k], err);
					found = 1;
				}
		check(found, text);
	}
}

static void limit(char *text)
{
	static const struct {
		const char *name;
		int resource;
	} limits[] = { { "nofile", RLIMIT_NOFILE }, { "memlock", RLIMIT_MEMLOCK },
		       { "fsize", RLIMIT_FSIZE },   { "as", RLIMIT_AS },
		       { "stack", RLIMIT_STACK },   { "core", RLIMIT_CORE } };
	char *equals = strchr(text, '=');
	check(equals != NULL, text);
	*equals = 0;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (!strcmp(limits[i].name, text)) {
			rlim_t n = strtoull(equals + 1, NULL, 0);
			struct rlimit r = { n, n };
			check(!setrlimit((__rlimit_resource_t)limits[i].resource, &r), text);
			return;
		}
	check(0, text);
}

static void loopback_up(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	check(fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &r), "loopback up");
	close(fd);
}

static void pid_namespace(void)
{
	check(!unshare(CLONE_NEWPID), "unshare");
	pid_t child = fork();
	check(child >= 0, "fork");
	if (!child)
		return;
	int status;
	waitpid(child, &status, 0);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

int main(int argc, char **argv)
{
	static const struct option known[] = { { "deny", required_argument, NULL, 'd' },
					       { "limit", required_argument, NULL, 'l' },
					       { "uid", required_argument, NULL, 'u' },
					       { "netns", no_argument, NULL, 'n' },
					       { "lo", no_argument, NULL, 'o' },
					       { "userns", no_argument, NULL, 'U' },
					       { "pidns", no_argument, NULL, 'p' },
					       { "preload", required_argument, NULL, 'P' },
					       { 0 } };
	for (int c; (c = getopt_long(argc, argv, "+", known, NULL)) != -1;) {
		switch (c) {
		case 'd':
			deny(optarg);
			break;
		case 'l':
			limit(optarg);
			break;
		case 'u':
			check(!setgid((gid_t)atoi(optarg)) && !setuid((uid_t)atoi(optarg)),
			      "setuid");
			break;
		case 'n':
			check(!unshare(CLONE_NEWNET), "unshare");
			break;
		case 'o':
			loopback_up();
			break;
		case 'U':
			check(!unshare(CLONE_NEWUSER), "unshare");
			break;
		case 'p':
			pid_namespace();
			break;
		case 'P':
			/* Last: the command is to have it, we are not. */
			setenv("LD_PRELOAD", optarg, 1);
			break;
		default:
			return 125;
		}
	}
	check(optind < argc, "no command");
	execvp(argv[optind], argv + optind);
	check(0, argv[optind]);
}
