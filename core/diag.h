/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_DIAG_H
#define SMC_CORE_DIAG_H

#include "core/stats.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Asking the kernel for one TCP socket of this network namespace by its addresses: the bytes of a sock_diag
 * request (NETLINK_SOCK_DIAG, linux/inet_diag.h) and of its answer. No privilege is needed.
 */
#define DIAG_REQUEST_SIZE 72

/* The socket whose local address is `local` and whose peer is `remote`. */
void diag_request(uint8_t request[DIAG_REQUEST_SIZE], uint32_t sequence, const struct smc_stats_addr *local,
		  const struct smc_stats_addr *remote);

struct diag_socket {
	uint32_t uid;
	uint32_t inode;	 /* 0: not accepted yet, nobody holds it */
	uint32_t state;	 /* 1 = established */
	uint64_t cookie; /* as SO_COOKIE */
};

/* 0; -ENOENT no such socket; -EAGAIN the answer to another question; -EPROTO nonsense; other: the kernel's error. */
int diag_answer(const uint8_t *answer, size_t length, uint32_t sequence, struct diag_socket *socket);

#endif
