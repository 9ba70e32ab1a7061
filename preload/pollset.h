/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_POLLSET_H
#define SMC_PRELOAD_POLLSET_H

#include "preload/until.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>

/* What poll and select have in common. */

/* Is there anything among them that the kernel alone cannot answer for? */
bool pollset_concerns(struct pollfd *fds, nfds_t n);

/* As ppoll. `select`: only what select counts counts (select.c), and a descriptor that is not open is EBADF. */
int pollset_wait(struct pollfd *fds, nfds_t n, until_t until, const sigset_t *mask, bool select);

/* What select counts of the events of a descriptor that is in the sets `events` stands for: POLLIN the
 * first, POLLOUT the second, POLLPRI the third. The kernel's POLLIN_SET, POLLOUT_SET, POLLEX_SET. */
static inline short pollset_select_mask(short events)
{
	short mask = 0;

	if (events & POLLIN)
		mask |= POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR;
	if (events & POLLOUT)
		mask |= POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR;
	if (events & POLLPRI)
		mask |= POLLPRI;
	return mask;
}

#endif
