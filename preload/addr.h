/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_ADDR_H
#define SMC_PRELOAD_ADDR_H

#include "core/stats.h"

#include <stdbool.h>
#include <sys/socket.h>

/* "[ffff:...:255.255.255.255]:65535" and its NUL */
#define SMC_ADDR_TEXT 64

/* v4-mapped IPv6 becomes IPv4. Anything that is not IPv4 or IPv6, or too short: family 0. */
void addr_from_sockaddr(struct smc_stats_addr *a, const struct sockaddr *sa, socklen_t len);
/* getsockname and getpeername; family 0 where that fails. */
void addr_of_socket(int fd, struct smc_stats_addr *local, struct smc_stats_addr *remote);
/* Was the connection that `fd` accepted at `local` made to another address, and brought here by NAT (REDIRECT,
 * DNAT)? Then the socket that names `local` as its peer, if there is one, is the end of another connection. */
bool addr_redirected(int fd, const struct smc_stats_addr *local);
void addr_text(const struct smc_stats_addr *a, char text[SMC_ADDR_TEXT]);
/* Can the two ends be on one host? Both the same address, or the remote one a loopback address; not one
 * socket connected to itself. The kernel has the last word later. */
bool addr_same_host(const struct smc_stats_addr *local, const struct smc_stats_addr *remote);

#endif
