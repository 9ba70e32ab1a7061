/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/process.h"
#include "core/arena.h"
#include "core/lock.h"
#include "preload/conn.h"
#include "preload/epoll.h"
#include "preload/link.h"
#include "preload/raw.h"
#include "preload/service.h"
#include "preload/start.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

static int own_pid;

bool process_is_own(void)
{
	return raw_call3(SYS_getpid, 0, 0, 0) == own_pid;
}

int process_pid(void)
{
	return own_pid;
}

/* ---- fork: each module stops between two pieces of work, in lock order, and goes on in both processes ---- */

static void prepare(void)
{
	service_fork_prepare();
	epoll_fork_prepare();
	conn_fork_prepare();
	link_fork_prepare();
}

static void in_parent(void)
{
	link_fork_parent();
	conn_fork_parent();
	epoll_fork_parent();
	service_fork_parent();
}

static void in_child(void)
{
	own_pid = (int)raw_call3(SYS_getpid, 0, 0, 0);
	smc_lock_forget_self();
	start_fork_child();
	link_fork_child();
	conn_fork_child();
	epoll_fork_child();
	service_fork_child();
}

void process_start(void)
{
	own_pid = (int)raw_call3(SYS_getpid, 0, 0, 0);
	pthread_atfork(prepare, in_parent, in_child);
}

/* The handlers run for every fork, also those inside libc (daemon, forkpty); that one failed only shows here. */
SMC_EXPORT pid_t fork(void)
{
	pid_t pid = real.fork();

	if (pid < 0) {
		int saved = errno;
		conn_fork_failed();
		errno = saved;
	}
	return pid;
}

/* ---- exec and spawn: a new program that may lack the library inherits descriptors ---- */

static void look_at_inherited(void *context, int fd, struct fd_object *object)
{
	(void)context;
	(void)object;
	/* the kernel's own word: in a vforked child the descriptors differ from what our table says */
	long flags = raw_call3(SYS_fcntl, fd, F_GETFD, 0);
	if (flags < 0 || (flags & FD_CLOEXEC))
		return;
	struct conn *c = conn_get(fd);
	if (!c)
		return;
	conn_make_foreign(c, SMC_REASON_SHARED);
	conn_put(c);
}

static void before_spawn(void)
{
	int saved = errno;

	fdtable_each(FD_CONN, look_at_inherited, NULL);
	errno = saved;
}

/* This process' memory, and with it its hold on connections, ends if the exec succeeds. */
static void before_exec(void)
{
	before_spawn();
	if (process_is_own()) {
		conn_log_open();
		conn_all_dropped(true);
	}
}

static int exec_failed(int r)
{
	int saved = errno;

	if (process_is_own())
		conn_all_dropped(false);
	errno = saved;
	return r;
}

SMC_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	before_exec();
	return exec_failed(real.execve(path, argv, envp));
}

SMC_EXPORT int execv(const char *path, char *const argv[])
{
	before_exec();
	return exec_failed(real.execv(path, argv));
}

SMC_EXPORT int execvp(const char *file, char *const argv[])
{
	before_exec();
	return exec_failed(real.execvp(file, argv));
}

SMC_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	before_exec();
	return exec_failed(real.execvpe(file, argv, envp));
}

SMC_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	before_exec();
	return exec_failed(real.fexecve(fd, argv, envp));
}

SMC_EXPORT int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
	before_exec();
	return exec_failed(real.execveat(dirfd, path, argv, envp, flags));
}

/* The arguments of an execl call as an array on the stack; with `envp` also what follows the NULL. */
#define ARGV_FROM_LIST(arg, argv, envp)                                                            \
	va_list list;                                                                              \
	size_t n = 1;                                                                              \
	va_start(list, arg);                                                                       \
	while (va_arg(list, char *))                                                               \
		n++;                                                                               \
	va_end(list);                                                                              \
	char **argv = __builtin_alloca((n + 1) * sizeof(*argv));                                   \
	argv[0] = (char *)arg;                                                                     \
	va_start(list, arg);                                                                       \
	for (size_t i = 1; i <= n; i++)                                                            \
		argv[i] = va_arg(list, char *);                                                    \
	char *const *envp = NULL;                                                                  \
	(void)envp

SMC_EXPORT int execl(const char *path, const char *arg, ...)
{
	ARGV_FROM_LIST(arg, argv, envp);
	va_end(list);
	return execv(path, argv);
}

SMC_EXPORT int execlp(const char *file, const char *arg, ...)
{
	ARGV_FROM_LIST(arg, argv, envp);
	va_end(list);
	return execvp(file, argv);
}

SMC_EXPORT int execle(const char *path, const char *arg, ...)
{
	ARGV_FROM_LIST(arg, argv, envp);
	envp = va_arg(list, char *const *);
	va_end(list);
	return execve(path, argv, envp);
}

SMC_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	before_spawn();
	return real.posix_spawn(pid, path, actions, attr, argv, envp);
}

SMC_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	before_spawn();
	return real.posix_spawnp(pid, file, actions, attr, argv, envp);
}

SMC_EXPORT int system(const char *command)
{
	before_spawn();
	return real.system(command);
}

SMC_EXPORT FILE *popen(const char *command, const char *type)
{
	before_spawn();
	return real.popen(command, type);
}

/* ---- exit ---- */

/* What is owed to TCP is written, as the kernel would after we are gone. */
static void at_exit(void)
{
	int saved = errno;

	if (process_is_own()) {
		conn_flush_owed();
		conn_log_open();
	}
	errno = saved;
}

__attribute__((destructor)) static void destructor(void)
{
	at_exit();
}

SMC_EXPORT void _exit(int status)
{
	at_exit();
	real._exit(status);
	__builtin_unreachable();
}

SMC_EXPORT void _Exit(int status)
{
	at_exit();
	real._Exit(status);
	__builtin_unreachable();
}

/* ---- raw system calls by programs that avoid libc's wrappers ---- */

SMC_EXPORT long syscall(long number, ...)
{
	va_list args;
	long a[6];

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	switch (number) {
	case SYS_close:
		return close((int)a[0]);
	case SYS_close_range:
		return close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]);
	case SYS_read:
		return read((int)a[0], (void *)a[1], (size_t)a[2]);
	case SYS_write:
		return write((int)a[0], (const void *)a[1], (size_t)a[2]);
	case SYS_recvfrom:
		return recvfrom((int)a[0], (void *)a[1], (size_t)a[2], (int)a[3], (struct sockaddr *)a[4], (socklen_t *)a[5]);
	case SYS_sendto:
		return sendto((int)a[0], (const void *)a[1], (size_t)a[2], (int)a[3], (struct sockaddr *)a[4], (socklen_t)a[5]);
	case SYS_recvmsg:
		return recvmsg((int)a[0], (struct msghdr *)a[1], (int)a[2]);
	case SYS_sendmsg:
		return sendmsg((int)a[0], (const struct msghdr *)a[1], (int)a[2]);
	case SYS_epoll_ctl:
		return epoll_ctl((int)a[0], (int)a[1], (int)a[2], (struct epoll_event *)a[3]);
	case SYS_epoll_pwait:
		return epoll_pwait((int)a[0], (struct epoll_event *)a[1], (int)a[2], (int)a[3], (const sigset_t *)a[4]);
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
		return epoll_wait((int)a[0], (struct epoll_event *)a[1], (int)a[2], (int)a[3]);
	case SYS_dup2:
		return dup2((int)a[0], (int)a[1]);
	case SYS_select:
		return select((int)a[0], (fd_set *)a[1], (fd_set *)a[2], (fd_set *)a[3], (struct timeval *)a[4]);
	case SYS_poll:
		return poll((struct pollfd *)a[0], (nfds_t)a[1], (int)a[2]);
#endif
	case SYS_readv:
		return readv((int)a[0], (const struct iovec *)a[1], (int)a[2]);
	case SYS_writev:
		return writev((int)a[0], (const struct iovec *)a[1], (int)a[2]);
	/* the offset in two halves, of which a 64-bit kernel takes the first */
	case SYS_preadv2:
		return preadv2((int)a[0], (const struct iovec *)a[1], (int)a[2], (off_t)a[3], (int)a[5]);
	case SYS_pwritev2:
		return pwritev2((int)a[0], (const struct iovec *)a[1], (int)a[2], (off_t)a[3], (int)a[5]);
	case SYS_recvmmsg:
		return recvmmsg((int)a[0], (struct mmsghdr *)a[1], (unsigned)a[2], (int)a[3], (struct timespec *)a[4]);
	case SYS_sendmmsg:
		return sendmmsg((int)a[0], (struct mmsghdr *)a[1], (unsigned)a[2], (int)a[3]);
	case SYS_sendfile:
		return sendfile((int)a[0], (int)a[1], (off_t *)a[2], (size_t)a[3]);
	case SYS_splice:
		return splice((int)a[0], (off64_t *)a[1], (int)a[2], (off64_t *)a[3], (size_t)a[4], (unsigned)a[5]);
	case SYS_tee:
		return tee((int)a[0], (int)a[1], (size_t)a[2], (unsigned)a[3]);
	case SYS_vmsplice:
		return vmsplice((int)a[0], (const struct iovec *)a[1], (size_t)a[2], (unsigned)a[3]);
	case SYS_shutdown:
		return shutdown((int)a[0], (int)a[1]);
	case SYS_setsockopt:
		return setsockopt((int)a[0], (int)a[1], (int)a[2], (const void *)a[3], (socklen_t)a[4]);
	case SYS_ioctl:
		return ioctl((int)a[0], (unsigned long)a[1], a[2]);
	case SYS_fcntl:
		return fcntl((int)a[0], (int)a[1], a[2]);
	case SYS_dup:
		return dup((int)a[0]);
	case SYS_dup3:
		return dup3((int)a[0], (int)a[1], (int)a[2]);
	case SYS_epoll_create1:
		return epoll_create1((int)a[0]);
	case SYS_epoll_pwait2:
		return epoll_pwait2((int)a[0], (struct epoll_event *)a[1], (int)a[2], (const struct timespec *)a[3], (const sigset_t *)a[4]);
	case SYS_ppoll:
		return ppoll((struct pollfd *)a[0], (nfds_t)a[1], (const struct timespec *)a[2], (const sigset_t *)a[3]);
	case SYS_pselect6: {
		const struct {
			const sigset_t *mask;
			size_t size;
		} *m = (const void *)a[5];
		return pselect((int)a[0], (fd_set *)a[1], (fd_set *)a[2], (fd_set *)a[3], (const struct timespec *)a[4], m ? m->mask : NULL);
	}
	case SYS_execveat:
		return execveat((int)a[0], (const char *)a[1], (char *const *)a[2], (char *const *)a[3], (int)a[4]);
	case SYS_execve:
		return execve((const char *)a[0], (char *const *)a[1], (char *const *)a[2]);
	case SYS_exit_group:
		_exit((int)a[0]);
	}
	return real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
