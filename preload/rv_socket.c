/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/sys.h"
#include "preload/raw.h"
#include "preload/service_internal.h"
#include "transport/shm/bell.h"

#include <string.h>

int rv_send(int sock, const struct rv_msg *m, const int *fds, unsigned n)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(RV_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = { (void *)m, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
	}
	ssize_t r = smc_sys.sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	return r < 0 ? (int)r : 0;
}

void rv_close_fds(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fdtable_close_internal(fds[i]);
}

/* Moves received descriptors out of the application's way; those beyond `max` are closed. */
static void take_fds(struct msghdr *msg, int *fds, unsigned *n)
{
	*n = 0;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
			fd = fdtable_make_internal(fd);
			if (fd >= 0 && *n < RV_MAX_FDS)
				fds[(*n)++] = fd;
			else
				fdtable_close_internal(fd);
		}
	}
}

int rv_recv(int sock, struct rv_msg *m, int fds[RV_MAX_FDS], unsigned *n)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(16 * sizeof(int))];
	} control;
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t r = smc_sys.recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*n = 0;
	if (r < 0)
		return r == -EAGAIN || r == -EINTR ? -EAGAIN : -EPIPE;
	take_fds(&msg, fds, n);
	if (r == 0 && !*n)
		return -EPIPE;
	if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && rv_check(m, (size_t)r, *n))
		return 0;
	rv_close_fds(fds, *n);
	*n = 0;
	if (shm_totals)
		atomic_fetch_add_explicit(&shm_totals->refused, 1, memory_order_relaxed);
	return -EPROTO;
}
