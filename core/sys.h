/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_SYS_H
#define SMC_CORE_SYS_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

/*
 * The kernel calls that core and transport need. The layer above fills the table before anything else
 * runs (the preload library with raw system calls, which are neither interposed nor cancellation points;
 * unit tests with what they like). Results are those of the raw call: >= 0, or a negative errno; `errno`
 * itself is never touched.
 */
struct smc_sys {
	ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
	ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
	ssize_t (*write)(int fd, const void *data, size_t n);
	int (*getsockopt)(int fd, int level, int name, void *value, socklen_t *len);
	int (*setsockopt)(int fd, int level, int name, const void *value, socklen_t len);
	int (*ioctl)(int fd, unsigned long request, void *arg);
	int (*poll)(struct pollfd *fds, nfds_t n, int timeout_ms);
	int (*shutdown)(int fd, int how);
	int (*close)(int fd);
	int (*fcntl)(int fd, int cmd, long arg);
	/* FUTEX_WAIT / FUTEX_WAKE on a word that other processes may share; timeout NULL = for ever */
	int (*futex_wait)(_Atomic uint32_t *word, uint32_t expected, const struct timespec *timeout);
	/* The same, as a cancellation point; *sleepers is one higher meanwhile, also when the thread is cancelled
	 * only until then. */
	int (*sleep)(_Atomic uint32_t *word, uint32_t expected, const struct timespec *timeout, _Atomic uint32_t *sleepers);
	int (*futex_wake)(_Atomic uint32_t *word, int count);
	int (*gettid)(void);
	/* 0 if there is such a thread or process, -ESRCH if not */
	int (*alive)(int tid);
};

extern struct smc_sys smc_sys;

#endif
