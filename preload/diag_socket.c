/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/sys.h"
#include "preload/raw.h"
#include "preload/service_internal.h"

#include <linux/netlink.h>

#ifndef NETLINK_SOCK_DIAG
#define NETLINK_SOCK_DIAG 4
#endif

static int sock = -1;
static uint32_t sequence;

static int open_socket(void)
{
	if (sock >= 0)
		return sock;
	int fd = (int)raw_call3(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	return sock = fd < 0 ? fd : fdtable_make_internal(fd);
}

void diag_close(void)
{
	fdtable_close_internal(sock);
	sock = -1;
}

int diag_find(const struct smc_stats_addr *local, const struct smc_stats_addr *remote, struct diag_socket *found)
{
	uint8_t request[DIAG_REQUEST_SIZE], answer[1024];
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd = open_socket();

	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE ? -EMFILE : -EPROTONOSUPPORT;
	diag_request(request, ++sequence, local, remote);
	long r = raw_call6(SYS_sendto, fd, (long)request, sizeof(request), 0, (long)&kernel, sizeof(kernel));
	if (r < 0)
		return (int)r;
	/* the kernel answers within the send; left-overs of earlier questions are passed over */
	for (int i = 0; i < 8; i++) {
		r = raw_call6(SYS_recvfrom, fd, (long)answer, sizeof(answer), MSG_DONTWAIT, 0, 0);
		if (r < 0)
			return r == -EAGAIN ? -EPROTO : (int)r;
		r = diag_answer(answer, (size_t)r, sequence, found);
		if (r != -EAGAIN)
			return (int)r;
	}
	return -EPROTO;
}
