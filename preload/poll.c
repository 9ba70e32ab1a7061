/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/pollset.h"
#include "preload/real.h"

SMC_EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	if (__builtin_expect(pollset_concerns(fds, n), 0))
		return pollset_wait(fds, n, until_ms(timeout, false), NULL, false);
	return real.poll(fds, n, timeout);
}

SMC_EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	if (__builtin_expect(pollset_concerns(fds, n), 0) && until_valid(timeout))
		return pollset_wait(fds, n, until_timespec(timeout, false), mask, false);
	return real.ppoll(fds, n, timeout, mask);
}

/* The fortified forms, which no header declares: too small an array is libc's to complain of. */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t size);

SMC_EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size)
{
	if (size / sizeof(*fds) >= n && __builtin_expect(pollset_concerns(fds, n), 0))
		return pollset_wait(fds, n, until_ms(timeout, false), NULL, false);
	return real.__poll_chk(fds, n, timeout, size);
}

SMC_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t size)
{
	if (size / sizeof(*fds) >= n && __builtin_expect(pollset_concerns(fds, n), 0) && until_valid(timeout))
		return pollset_wait(fds, n, until_timespec(timeout, false), mask, false);
	return real.__ppoll_chk(fds, n, timeout, mask, size);
}
