/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/bitset.h"
#include "preload/fdtable.h"
#include "preload/pollset.h"
#include "preload/real.h"

#include <errno.h>
#include <stdlib.h>

/* select as a poll of the descriptors that are in the sets. */

enum { ON_STACK = 64 };

struct sets {
	int n;
	unsigned long *set[3];
};

static struct sets sets_of(int n, fd_set *r, fd_set *w, fd_set *x)
{
	return (struct sets){ n, { (unsigned long *)(void *)r, (unsigned long *)(void *)w, (unsigned long *)(void *)x } };
}

/* A set may be shorter than n says, where the kernel would not look as far; so beyond FD_SETSIZE it is only
 * asked about numbers that are ours. */
static bool concerns(const struct sets *s, int fd)
{
	struct pollfd p = { .fd = fd };
	struct fd_object *o = fdtable_get(fd);

	if (!o || (fd >= FD_SETSIZE && o->type == FD_INTERNAL))
		return false;
	return bitset_events(s->set, fd) && pollset_concerns(&p, 1);
}

/* A pointer that the kernel finds fault with. */
static bool is_low(const void *p)
{
	return p && (uintptr_t)p < 4096;
}

static bool sets_concern(const struct sets *s)
{
	int end = s->n < FDTABLE_MAX ? s->n : FDTABLE_MAX;

	if (s->n < 0 || is_low(s->set[0]) || is_low(s->set[1]) || is_low(s->set[2]))
		return false;
	for (size_t word = 0; word < bitset_words(end < FD_SETSIZE ? end : FD_SETSIZE); word++)
		for (unsigned long bits = bitset_any(s->set, word, s->n); bits; bits &= bits - 1)
			if (concerns(s, (int)(word * BITSET_WORD) + __builtin_ctzl(bits)))
				return true;
	for (int fd = FD_SETSIZE; fd < end; fd++) {
		if (!fdtable_chunks[fd / FDTABLE_CHUNK])
			fd |= FDTABLE_CHUNK - 1;
		else if (concerns(s, fd))
			return true;
	}
	return false;
}

static int wait_for(const struct sets *s, until_t until, const sigset_t *mask)
{
	static const short each[3] = { POLLIN, POLLOUT, POLLPRI };
	struct pollfd space[ON_STACK], *fds = space;
	nfds_t n = bitset_to_poll(s->set, s->n, NULL);
	short masks[3];

	if (n > ON_STACK && !(fds = malloc(n * sizeof(*fds)))) {
		errno = ENOMEM;
		return -1;
	}
	bitset_to_poll(s->set, s->n, fds);
	int r = pollset_wait(fds, n, until, mask, true);
	for (int i = 0; i < 3; i++)
		masks[i] = pollset_select_mask(each[i]);
	if (r >= 0)
		r = bitset_from_poll(s->set, s->n, fds, n, masks);
	if (fds != space)
		free(fds);
	return r;
}

/* Linux tells how much time is left, also when a signal ended the call. */
static void tell_left(struct timeval *timeout, until_t until)
{
	uint64_t left = until_left_ns(until);

	if (!timeout || until == UNTIL_FOREVER)
		return;
	timeout->tv_sec = (time_t)(left / 1000000000u);
	timeout->tv_usec = (suseconds_t)(left % 1000000000u / 1000);
}

SMC_EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *timeout)
{
	struct sets s = sets_of(n, r, w, x);
	struct timespec t;

	if (!sets_concern(&s) || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return real.select(n, r, w, x, timeout);
	if (timeout)
		t = (struct timespec){ timeout->tv_sec + timeout->tv_usec / 1000000, timeout->tv_usec % 1000000 * 1000 };
	until_t until = until_timespec(timeout ? &t : NULL, false);
	int found = wait_for(&s, until, NULL), error = errno;
	tell_left(timeout, until);
	errno = error;
	return found;
}

SMC_EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *timeout, const sigset_t *mask)
{
	struct sets s = sets_of(n, r, w, x);

	if (!sets_concern(&s) || !until_valid(timeout))
		return real.pselect(n, r, w, x, timeout, mask);
	return wait_for(&s, until_timespec(timeout, false), mask);
}
