/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/real.h"

#include <dlfcn.h>
#include <errno.h>

/* What a name that this C library does not have does when called all the same. */
static long missing(void)
{
	errno = ENOSYS;
	return -1;
}

static void *find(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	return f ? f : (void *)missing;
}

#define FIND(name) __atomic_store_n((void **)&real.name, find(#name), __ATOMIC_RELAXED)

/* The resolvers: each replaces itself and calls on. */
#define CALL(ret, name, params, args)                                                              \
	static ret first_##name params                                                             \
	{                                                                                          \
		FIND(name);                                                                        \
		return real.name args;                                                             \
	}
#define VCALL(ret, name, params, args)
#include "preload/calls.def"
#undef CALL
#undef VCALL

static int first_fcntl(int fd, int cmd, ...)
{
	va_list args;

	va_start(args, cmd);
	long arg = va_arg(args, long);
	va_end(args);
	FIND(fcntl);
	return real.fcntl(fd, cmd, arg);
}

static int first_fcntl64(int fd, int cmd, ...)
{
	va_list args;

	va_start(args, cmd);
	long arg = va_arg(args, long);
	va_end(args);
	FIND(fcntl64);
	return real.fcntl64(fd, cmd, arg);
}

static int first_ioctl(int fd, unsigned long request, ...)
{
	va_list args;

	va_start(args, request);
	void *arg = va_arg(args, void *);
	va_end(args);
	FIND(ioctl);
	return real.ioctl(fd, request, arg);
}

static long first_syscall(long number, ...)
{
	va_list args;
	long a[6];

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	FIND(syscall);
	return real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* The wrappers of these go to the forms that take lists, never here. */
#define first_dprintf NULL
#define first___dprintf_chk NULL
#define first_execl NULL
#define first_execlp NULL
#define first_execle NULL

struct real_calls real = {
#define CALL(ret, name, params, args) .name = first_##name,
#define VCALL CALL
#include "preload/calls.def"
#undef CALL
#undef VCALL
};

void real_resolve(void)
{
#define CALL(ret, name, params, args) FIND(name);
#define VCALL CALL
#include "preload/calls.def"
#undef CALL
#undef VCALL
}
