/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/call.h"
#include "preload/epoll.h"
#include "preload/process.h"
#include "preload/start.h"

#include <dirent.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdlib.h>

/*
 * Descriptors made, doubled and closed. The table entry goes before the real close, since the number can be
 * somebody else's right after it. A vforked child works on a copy of the descriptors but on our memory: there
 * everything goes straight to the kernel (process_is_own).
 */

/* Takes `fd` out of the table and lets its object know. Returns the object to let go of after the real close. */
static struct fd_object *forget(int fd)
{
	struct fd_object *o = fdtable_get(fd);

	if (!o || !process_is_own())
		return NULL;
	o = fdtable_set(fd, NULL, NULL);
	if (!o)
		return NULL;
	if (o->type == FD_INTERNAL) {
		fdtable_set(fd, o, NULL);
		return NULL;
	}
	if (o->type == FD_EPOLL) {
		epoll_closing(o, fd);
		return NULL;
	}
	conn_ref((struct conn *)o);
	conn_closing((struct conn *)o, fd);
	return o;
}

static void let_go(struct fd_object *o)
{
	struct conn *c = conn_of(o);

	if (!c)
		return;
	int saved = errno;
	conn_put(c); /* the table's */
	conn_put(c);
	errno = saved;
}

SMC_EXPORT int close(int fd)
{
	struct fd_object *o = fdtable_get(fd);
	int r;

	if (__builtin_expect(!o, 1))
		return real.close(fd);
	if (o->type == FD_INTERNAL && process_is_own()) {
		errno = EBADF;
		return -1;
	}
	o = forget(fd);
	r = real.close(fd);
	let_go(o);
	return r;
}

/* Applies `f` to the parts of [first, last] between the library's own descriptors. */
static int spare_internal(unsigned first, unsigned last, int flags)
{
	unsigned end = last < FDTABLE_MAX ? last : FDTABLE_MAX - 1;
	int r = 0;

	for (unsigned fd = first; fd <= end && !r; fd++) {
		if (!fdtable_chunks[fd / FDTABLE_CHUNK]) {
			fd |= FDTABLE_CHUNK - 1;
			continue;
		}
		if (!fdtable_is_internal((int)fd))
			continue;
		if (fd > first)
			r = real.close_range(first, fd - 1, flags);
		first = fd + 1;
	}
	return r || first > last ? r : real.close_range(first, last, flags);
}

static void forget_range(unsigned first, unsigned last)
{
	unsigned end = last < FDTABLE_MAX ? last : FDTABLE_MAX - 1;

	for (unsigned fd = first; fd <= end; fd++) {
		if (!fdtable_chunks[fd / FDTABLE_CHUNK])
			fd |= FDTABLE_CHUNK - 1;
		else if (fdtable_get((int)fd) && !fdtable_is_internal((int)fd))
			close((int)fd);
	}
}

SMC_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	if (first > last || !process_is_own())
		return real.close_range(first, last, flags);
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		forget_range(first, last);
	return spare_internal(first, last, flags);
}

/* Without close_range (before Linux 5.9 or glibc 2.34): one by one, as far as descriptors can go. */
static void close_from_slowly(int first)
{
	long max = sysconf(_SC_OPEN_MAX);

	for (int fd = first; fd < max && fd < INT_MAX; fd++)
		close(fd);
}

SMC_EXPORT void closefrom(int first)
{
	unsigned from = first < 0 ? 0 : (unsigned)first;
	int saved = errno;

	if (!process_is_own()) {
		real.closefrom(first);
		return;
	}
	if (close_range(from, UINT_MAX, 0))
		close_from_slowly((int)from);
	errno = saved;
}

/* `fd` now also is `newfd`, which is already out of the table. */
static void doubled(int fd, int newfd)
{
	struct fd_object *o = fdtable_get(fd);

	if (!o || newfd < 0 || !process_is_own())
		return;
	int saved = errno;
	if (o->type == FD_CONN) {
		struct conn *c = conn_get(fd);
		if (c) {
			conn_dup(c, newfd);
			conn_put(c);
		}
	} else if (o->type == FD_EPOLL) {
		epoll_dup(o, newfd);
	}
	errno = saved;
}

/* The application may neither double what is the library's, nor ask for its number. */
static bool hidden(int fd)
{
	if (__builtin_expect(!fdtable_is_internal(fd), 1) || !process_is_own())
		return false;
	errno = EBADF;
	return true;
}

SMC_EXPORT int dup(int fd)
{
	int newfd;

	if (hidden(fd))
		return -1;
	newfd = real.dup(fd);
	doubled(fd, newfd);
	return newfd;
}

static int dup_to(int fd, int newfd, int flags, bool three)
{
	struct fd_object *o;
	int r;

	if (hidden(fd) || hidden(newfd))
		return -1;
	/* newfd is closed only if all else is right */
	bool replaces = fd != newfd && fdtable_get(newfd) && fcntl(fd, F_GETFD) >= 0 && !(flags & ~O_CLOEXEC);
	o = replaces ? forget(newfd) : NULL;
	r = three ? real.dup3(fd, newfd, flags) : real.dup2(fd, newfd);
	let_go(o);
	if (fd != newfd)
		doubled(fd, r);
	return r;
}

SMC_EXPORT int dup2(int fd, int newfd)
{
	return dup_to(fd, newfd, 0, false);
}

SMC_EXPORT int dup3(int fd, int newfd, int flags)
{
	return dup_to(fd, newfd, flags, true);
}

static int after_fcntl(int fd, int cmd, long arg, int r)
{
	struct conn *c;

	if (r < 0)
		return r;
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) {
		doubled(fd, r);
	} else if ((cmd == F_SETFL || cmd == F_SETOWN || cmd == F_SETOWN_EX || cmd == F_SETSIG) && (c = conn_get(fd))) {
		if (cmd == F_SETFL && c->stream.end)
			atomic_store(&c->stream.end->nonblock, (arg & O_NONBLOCK) != 0);
		if (cmd == F_SETFL && (arg & O_ASYNC))
			conn_keep_tcp(c, SMC_REASON_ASYNC);
		conn_put(c);
	}
	return r;
}

SMC_EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list args;

	va_start(args, cmd);
	long arg = va_arg(args, long);
	va_end(args);
	if (hidden(fd))
		return -1;
	return after_fcntl(fd, cmd, arg, real.fcntl(fd, cmd, arg));
}

SMC_EXPORT int fcntl64(int fd, int cmd, ...)
{
	va_list args;

	va_start(args, cmd);
	long arg = va_arg(args, long);
	va_end(args);
	if (hidden(fd))
		return -1;
	return after_fcntl(fd, cmd, arg, real.fcntl64(fd, cmd, arg));
}
