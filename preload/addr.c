/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/addr.h"
#include "preload/raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

void addr_from_sockaddr(struct smc_stats_addr *a, const struct sockaddr *sa, socklen_t len)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

	*a = (struct smc_stats_addr){ 0 };
	if (!sa || len < sizeof(sa_family_t))
		return;
	if (sa->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *in = (const void *)sa;
		a->family = AF_INET;
		a->port = ntohs(in->sin_port);
		memcpy(a->ip, &in->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6 && len >= 24) { /* the kernel takes it without the scope id, too */
		const struct sockaddr_in6 *in6 = (const void *)sa;
		a->port = ntohs(in6->sin6_port);
		if (!memcmp(&in6->sin6_addr, mapped, sizeof(mapped))) {
			a->family = AF_INET;
			memcpy(a->ip, (const uint8_t *)&in6->sin6_addr + 12, 4);
		} else {
			a->family = AF_INET6;
			memcpy(a->ip, &in6->sin6_addr, 16);
		}
	}
}

void addr_of_socket(int fd, struct smc_stats_addr *local, struct smc_stats_addr *remote)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (!local->family && !raw_call3(SYS_getsockname, fd, &sa, &len))
		addr_from_sockaddr(local, (struct sockaddr *)&sa, len);
	len = sizeof(sa);
	if (!remote->family && !raw_call3(SYS_getpeername, fd, &sa, &len))
		addr_from_sockaddr(remote, (struct sockaddr *)&sa, len);
}

/* Connection tracking knows what the client asked for. Where there is none, nothing can be redirected. */
enum { ORIGINAL_DST = 80 /* SO_ORIGINAL_DST, IP6T_SO_ORIGINAL_DST */ };

bool addr_redirected(int fd, const struct smc_stats_addr *local)
{
	struct sockaddr_storage sa;
	socklen_t len = local->family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	struct smc_stats_addr asked;

	if (raw_call5(SYS_getsockopt, fd, local->family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, ORIGINAL_DST, &sa, &len))
		return false;
	addr_from_sockaddr(&asked, (struct sockaddr *)&sa, len);
	return asked.family != local->family || asked.port != local->port || memcmp(asked.ip, local->ip, sizeof(asked.ip));
}

void addr_text(const struct smc_stats_addr *a, char text[SMC_ADDR_TEXT])
{
	char ip[INET6_ADDRSTRLEN];

	if (!a->family || !inet_ntop(a->family, a->ip, ip, sizeof(ip)))
		snprintf(text, SMC_ADDR_TEXT, "?:%u", a->port);
	else
		snprintf(text, SMC_ADDR_TEXT, a->family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip, a->port);
}

static bool is_loopback(const struct smc_stats_addr *a)
{
	static const uint8_t one[16] = { [15] = 1 };

	return a->family == AF_INET ? a->ip[0] == 127 : !memcmp(a->ip, one, 16);
}

bool addr_same_host(const struct smc_stats_addr *local, const struct smc_stats_addr *remote)
{
	if (!local->family || local->family != remote->family)
		return false;
	bool same = !memcmp(local->ip, remote->ip, sizeof(local->ip));
	if (same && local->port == remote->port)
		return false;
	return same || is_loopback(remote);
}
