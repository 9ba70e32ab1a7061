/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/passing.h"
#include "preload/conn.h"

#include <string.h>

void passing_look(const struct msghdr *msg)
{
	struct msghdr *m = (struct msghdr *)msg; /* CMSG_NXTHDR takes it so, and only reads */

	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS || h->cmsg_len < CMSG_LEN(0))
			continue;
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
			struct conn *c = conn_get(fd);
			if (!c)
				continue;
			conn_make_foreign(c, SMC_REASON_FD_PASSED);
			conn_put(c);
		}
	}
}
