/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>

struct request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};
_Static_assert(sizeof(struct request) == DIAG_REQUEST_SIZE, "DIAG_REQUEST_SIZE is the size of a request");

void diag_request(uint8_t request[DIAG_REQUEST_SIZE], uint32_t sequence, const struct smc_stats_addr *local,
		  const struct smc_stats_addr *remote)
{
	struct request r;

	memset(&r, 0, sizeof(r));
	r.header.nlmsg_len = sizeof(r);
	r.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
	r.header.nlmsg_flags = NLM_F_REQUEST;
	r.header.nlmsg_seq = sequence;
	r.body.sdiag_family = (uint8_t)local->family;
	r.body.sdiag_protocol = IPPROTO_TCP;
	r.body.idiag_states = ~0u;
	r.body.id.idiag_sport = htons(local->port);
	r.body.id.idiag_dport = htons(remote->port);
	memcpy(r.body.id.idiag_src, local->ip, sizeof(local->ip));
	memcpy(r.body.id.idiag_dst, remote->ip, sizeof(remote->ip));
	r.body.id.idiag_cookie[0] = r.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	memcpy(request, &r, sizeof(r));
}

int diag_answer(const uint8_t *answer, size_t length, uint32_t sequence, struct diag_socket *socket)
{
	struct nlmsghdr h;
	struct inet_diag_msg m;
	struct nlmsgerr e;

	if (length < sizeof(h))
		return -EPROTO;
	memcpy(&h, answer, sizeof(h));
	if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > length)
		return -EPROTO;
	if (h.nlmsg_seq != sequence)
		return -EAGAIN;
	if (h.nlmsg_type == NLMSG_ERROR) {
		if (h.nlmsg_len < NLMSG_LENGTH(sizeof(e)))
			return -EPROTO;
		memcpy(&e, answer + NLMSG_HDRLEN, sizeof(e));
		return e.error < 0 ? e.error : -EPROTO;
	}
	if (h.nlmsg_type != SOCK_DIAG_BY_FAMILY || h.nlmsg_len < NLMSG_LENGTH(sizeof(m)))
		return -EPROTO;
	memcpy(&m, answer + NLMSG_HDRLEN, sizeof(m));
	*socket = (struct diag_socket){
		.uid = m.idiag_uid,
		.inode = m.idiag_inode,
		.state = m.idiag_state,
		.cookie = m.id.idiag_cookie[0] | (uint64_t)m.id.idiag_cookie[1] << 32,
	};
	return 0;
}
