/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_EPOLL_MERGE_H
#define SMC_PRELOAD_EPOLL_MERGE_H

#include "preload/epset.h"

/* One call of epoll_wait or its kin, and how it gets at the events of both sides: shared by epoll_wait.c and
 * epoll_merge.c. */
enum how { BY_EPOLL_WAIT, BY_EPOLL_PWAIT, BY_EPOLL_PWAIT2 };

struct epoll_call {
	/* what the application said */
	enum how how;
	int epfd;
	struct epoll_event *events;
	int max;
	int timeout_ms;
	const struct timespec *timeout;
	const sigset_t *mask;

	struct epset *set;
	until_t until;
	bool begun; /* some of the time is over */
};

/* Events there are now, without waiting. As epoll_wait. */
int epoll_gather(struct epoll_call *k);
/* ... for some time, as long as that has been paying off. */
int epoll_spin(struct epoll_call *k);
/* Hears what peers and other processes did since. */
void epoll_look_around(struct epset *set);

#endif
