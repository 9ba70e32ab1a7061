/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/raw.h"
#include "core/sys.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

static ssize_t raw_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return raw_call3(SYS_recvmsg, fd, msg, flags);
}

static ssize_t raw_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return raw_call3(SYS_sendmsg, fd, msg, flags);
}

static ssize_t raw_write(int fd, const void *data, size_t n)
{
	return raw_call3(SYS_write, fd, data, n);
}

static int raw_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	return (int)raw_call5(SYS_getsockopt, fd, level, name, value, len);
}

static int raw_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return (int)raw_call5(SYS_setsockopt, fd, level, name, value, len);
}

static int raw_ioctl(int fd, unsigned long request, void *arg)
{
	return (int)raw_call3(SYS_ioctl, fd, request, arg);
}

static int raw_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec t = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };

	return (int)raw_call5(SYS_ppoll, fds, n, timeout_ms < 0 ? NULL : &t, NULL, 0);
}

static int raw_shutdown(int fd, int how)
{
	return (int)raw_call3(SYS_shutdown, fd, how, 0);
}

static int raw_close(int fd)
{
	return (int)raw_call3(SYS_close, fd, 0, 0);
}

static int raw_fcntl(int fd, int cmd, long arg)
{
	return (int)raw_call3(SYS_fcntl, fd, cmd, arg);
}

static int raw_futex_wait(_Atomic uint32_t *word, uint32_t expected, const struct timespec *timeout)
{
	return (int)raw_call4(SYS_futex, word, FUTEX_WAIT, expected, timeout);
}

static void one_less(void *sleepers)
{
	atomic_fetch_sub_explicit((_Atomic uint32_t *)sleepers, 1, memory_order_relaxed);
}

/* Blocking calls are cancellation points, and so must be what stands in for them: no lock is held here. */
static int raw_sleep(_Atomic uint32_t *word, uint32_t expected, const struct timespec *timeout, _Atomic uint32_t *sleepers)
{
	int type, r;

	atomic_fetch_add_explicit(sleepers, 1, memory_order_relaxed);
	pthread_cleanup_push(one_less, (void *)sleepers);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	r = raw_futex_wait(word, expected, timeout);
	pthread_setcanceltype(type, NULL);
	pthread_cleanup_pop(1);
	return r;
}

static int raw_futex_wake(_Atomic uint32_t *word, int count)
{
	return (int)raw_call3(SYS_futex, word, FUTEX_WAKE, count);
}

static int raw_gettid(void)
{
	return (int)raw_call3(SYS_gettid, 0, 0, 0);
}

/* A process that was killed answers signals until its parent has waited for it. Only its first thread stays so long,
 * and a descriptor of the process tells. */
static bool is_zombie(int pid)
{
	int fd = (int)raw_call3(SYS_pidfd_open, pid, 0, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (fd < 0)
		return false;
	bool ended = raw_poll(&p, 1, 0) == 1;
	raw_close(fd);
	return ended;
}

static int raw_alive(int tid)
{
	int r = (int)raw_call3(SYS_tkill, tid, 0, 0);

	return r == -ESRCH || is_zombie(tid) ? -ESRCH : 0;
}

void raw_fill_sys(void)
{
	smc_sys = (struct smc_sys){
		.recvmsg = raw_recvmsg,
		.sendmsg = raw_sendmsg,
		.write = raw_write,
		.getsockopt = raw_getsockopt,
		.setsockopt = raw_setsockopt,
		.ioctl = raw_ioctl,
		.poll = raw_poll,
		.shutdown = raw_shutdown,
		.close = raw_close,
		.fcntl = raw_fcntl,
		.futex_wait = raw_futex_wait,
		.sleep = raw_sleep,
		.futex_wake = raw_futex_wake,
		.gettid = raw_gettid,
		.alive = raw_alive,
	};
}
