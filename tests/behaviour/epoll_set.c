/* SPDX-License-Identifier: BSD-2-Clause */

#include "epoll_set.h"

#include "harness.h"

int set_new(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	MUST(ep >= 0);
	return ep;
}

int ctl(int ep, int op, int fd, unsigned events, unsigned data)
{
	struct epoll_event e = { .events = events, .data.u32 = data };
	return epoll_ctl(ep, op, fd, &e);
}

int say_wait(const char *what, int ep, int ms)
{
	struct epoll_event e[16];
	char text[160];
	memset(e, 0, sizeof(e));
	errno = 0;
	int n = epoll_wait(ep, e, 16, ms);
	if (n < 0)
		say("%s: -1 %s", what, errno_name(errno));
	else
		say("%s: %d", what, n);
	for (unsigned data = 0; data < 64; data++)
		for (int i = 0; i < n; i++)
			if (e[i].data.u64 == data)
				say("  %u %s", data, events_text(e[i].events, text, sizeof(text)));
	return n;
}
