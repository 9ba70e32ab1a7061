/* SPDX-License-Identifier: BSD-2-Clause */

/* The list of scenarios, the transcript and the meeting points of the parts, in memory they all map. */

#include "harness.h"

#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include "stage.h"

struct stage *stage;

static struct scenario *first, **last = &first;
static __thread int this_actor;

void scenario_register(struct scenario *s)
{
	*last = s;
	last = &s->next;
}

const struct scenario *scenario_first(void)
{
	return first;
}

const struct scenario *scenario_find(const char *name, const char *role)
{
	for (const struct scenario *s = first; s; s = s->next)
		if (!strcmp(s->name, name) && !strcmp(s->role, role))
			return s;
	return NULL;
}

static _Atomic int process_actor;

void actor_use(int index, const char *name)
{
	if (index < 0 || index >= ACTORS)
		abort();
	this_actor = index;
	if (!process_actor)
		process_actor = index;
	snprintf(stage->actor[index].name, sizeof(stage->actor[index].name), "%s", name);
}

int actor_index(void)
{
	return this_actor ? this_actor : process_actor;
}

/* One write per line, its place taken with one atomic add: a part may be killed at any moment, and
 * threads may share one. */
void say(const char *format, ...)
{
	int saved = errno;
	char line[1024];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (n < 0)
		abort();
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';

	struct actor *a = &stage->actor[actor_index()];
	size_t at = atomic_fetch_add(&a->size, (size_t)n);
	if (at + (size_t)n <= ACTOR_TEXT)
		memcpy(a->text + at, line, (size_t)n);
	errno = saved;
}

void report(const char *text, long result)
{
	if (result == -1)
		say("%s = -1 %s", text, errno_name(errno));
	else
		say("%s = %ld", text, result);
}

void broken(const char *file, int line, const char *expression)
{
	int err = errno;
	const char *slash = strrchr(file, '/');
	say("BROKEN %s:%d: %s (%s)", slash ? slash + 1 : file, line, expression, errno_name(err));
	fprintf(stderr, "%s:%d: %s does not hold (errno %s)\n", file, line, expression,
		errno_name(err));
	_exit(99);
}

#define NAMED(x)                                                                                   \
	{                                                                                          \
		x, #x                                                                              \
	}

const char *errno_name(int err)
{
	static const struct {
		int value;
		const char *name;
	} names[] = {
		NAMED(E2BIG),	      NAMED(EACCES),	      NAMED(EADDRINUSE),
		NAMED(EADDRNOTAVAIL), NAMED(EAFNOSUPPORT),    NAMED(EAGAIN),
		NAMED(EALREADY),      NAMED(EBADF),	      NAMED(EBUSY),
		NAMED(ECHILD),	      NAMED(ECONNABORTED),    NAMED(ECONNREFUSED),
		NAMED(ECONNRESET),    NAMED(EDESTADDRREQ),    NAMED(EDOM),
		NAMED(EEXIST),	      NAMED(EFAULT),	      NAMED(EHOSTUNREACH),
		NAMED(EINPROGRESS),   NAMED(EINTR),	      NAMED(EINVAL),
		NAMED(EIO),	      NAMED(EISCONN),	      NAMED(EISDIR),
		NAMED(ELOOP),	      NAMED(EMFILE),	      NAMED(EMSGSIZE),
		NAMED(ENETUNREACH),   NAMED(ENFILE),	      NAMED(ENOBUFS),
		NAMED(ENODEV),	      NAMED(ENOENT),	      NAMED(ENOMEM),
		NAMED(ENOPROTOOPT),   NAMED(ENOSYS),	      NAMED(ENOTCONN),
		NAMED(ENOTDIR),	      NAMED(ENOTSOCK),	      NAMED(ENOTTY),
		NAMED(EOPNOTSUPP),    NAMED(EPERM),	      NAMED(EPIPE),
		NAMED(EPROTO),	      NAMED(EPROTONOSUPPORT), NAMED(ERANGE),
		NAMED(ESPIPE),	      NAMED(ESRCH),	      NAMED(ETIMEDOUT),
		NAMED(EXDEV),
	};
	static __thread char number[24];
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].value == err)
			return names[i].name;
	snprintf(number, sizeof(number), "errno %d", err);
	return number;
}

const char *events_text(unsigned events, char *out, size_t size)
{
	/* The bits of poll and epoll are the same ones where both have them. */
	static const struct {
		unsigned value;
		const char *name;
	} names[] = {
		{ EPOLLIN, "IN" },	     { EPOLLPRI, "PRI" },	{ EPOLLOUT, "OUT" },
		{ EPOLLERR, "ERR" },	     { EPOLLHUP, "HUP" },	{ EPOLLRDHUP, "RDHUP" },
		{ POLLNVAL, "NVAL" },	     { EPOLLRDNORM, "RDNORM" }, { EPOLLRDBAND, "RDBAND" },
		{ EPOLLWRNORM, "WRNORM" },   { EPOLLWRBAND, "WRBAND" }, { EPOLLMSG, "MSG" },
		{ EPOLLONESHOT, "ONESHOT" }, { EPOLLET, "ET" },
	};
	size_t at = 0;
	unsigned rest = events;
	out[0] = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (events & names[i].value && at < size) {
			at += (size_t)snprintf(out + at, size - at, "%s%s", at ? "|" : "",
					       names[i].name);
			rest &= ~names[i].value;
		}
	if (rest && at < size)
		at += (size_t)snprintf(out + at, size - at, "%s0x%x", at ? "|" : "", rest);
	if (!at)
		snprintf(out, size, "none");
	return out;
}

void say_events(const char *text, unsigned events)
{
	char buffer[160];
	say("%s: %s", text, events_text(events, buffer, sizeof(buffer)));
}

void post(int k)
{
	atomic_fetch_add(&stage->posts[k], 1);
	syscall(SYS_futex, &stage->posts[k], FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void await_n(int k, int n)
{
	int saved = errno;
	long end = now_ms() + 10000;
	for (;;) {
		int have = atomic_load(&stage->posts[k]);
		if (have >= n)
			break;
		if (now_ms() > end) {
			say("GAVE UP waiting for meeting point %d", k);
			break;
		}
		struct timespec wait = { .tv_nsec = 50 * 1000 * 1000 };
		syscall(SYS_futex, &stage->posts[k], FUTEX_WAIT, have, &wait, NULL, 0);
	}
	errno = saved;
}

void await(int k)
{
	await_n(k, 1);
}

void shared_set(int k, long value)
{
	atomic_store(&stage->values[k], value);
}

long shared_get(int k)
{
	return atomic_load(&stage->values[k]);
}
