/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/diag.h"
#include "core/rendezvous.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>

/* The messages two processes meet by, and the kernel's answers about sockets: nothing odd gets through. */

static const struct smc_stats_addr client = { AF_INET, 40000, { 127, 0, 0, 1 } }, server = { AF_INET, 80, { 127, 0, 0, 1 } };

static struct rv_msg hello(void)
{
	struct rv_msg m = rv_make(RV_HELLO);

	m.client = client;
	m.server = server;
	return m;
}

Test(rendezvous, a_message_is_accepted_as_made)
{
	struct rv_msg m = hello();

	cr_assert(rv_check(&m, sizeof(m), 0));
	m = rv_make(RV_ACCEPT);
	cr_assert(rv_check(&m, sizeof(m), 0));
}

Test(rendezvous, another_length_magic_version_or_type_is_refused)
{
	struct rv_msg m = hello();

	for (size_t n = 0; n < sizeof(m); n++)
		cr_assert_not(rv_check(&m, n, 0), "%zu bytes", n);
	m.magic++;
	cr_assert_not(rv_check(&m, sizeof(m), 0));
	m = hello();
	m.version++;
	cr_assert_not(rv_check(&m, sizeof(m), 0));
	for (unsigned type = RV_TYPES; type < 70000; type = type * 2 + 1) {
		m = hello();
		m.type = (uint16_t)type;
		cr_assert_not(rv_check(&m, sizeof(m), 0), "type %u", type);
	}
	m.type = 0;
	cr_assert_not(rv_check(&m, sizeof(m), 0));
}

Test(rendezvous, descriptors_come_in_the_right_number)
{
	static const struct {
		enum rv_type type;
		unsigned least, most;
	} rules[] = { { RV_HELLO, 0, 0 }, { RV_WELCOME, 3, 3 }, { RV_JOIN, 2, 2 },    { RV_OFFER, 0, 1 },
		      { RV_ACCEPT, 0, 0 }, { RV_DECLINE, 0, 0 }, { RV_LEFT, 0, 0 } };

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		for (unsigned n = 0; n <= RV_MAX_FDS; n++) {
			struct rv_msg m = hello();
			m.type = (uint16_t)rules[i].type;
			cr_assert_eq(rv_check(&m, sizeof(m), n), n >= rules[i].least && n <= rules[i].most, "type %u, %u fds", m.type, n);
		}
	struct rv_msg have = rv_make(RV_WELCOME);
	have.have = 1;
	cr_assert(rv_check(&have, sizeof(have), 0));
	cr_assert_not(rv_check(&have, sizeof(have), 3));
}

Test(rendezvous, addresses_must_be_addresses_of_one_family)
{
	struct rv_msg m = hello();

	m.client.family = AF_UNIX;
	cr_assert_not(rv_check(&m, sizeof(m), 0));
	m = hello();
	m.server.family = AF_INET6;
	cr_assert_not(rv_check(&m, sizeof(m), 0));
	m = hello();
	m.server.port = 0;
	cr_assert_not(rv_check(&m, sizeof(m), 0));
}

Test(rendezvous, names_are_distinct_and_fit)
{
	struct smc_stats_addr six = { AF_INET6, 65535, { 0xff } }, other = server;
	char a[107], b[107];
	size_t n = rv_name(&client, &server, a);

	cr_assert_eq(n, strlen("smc_preload.1/7f000001:9c40-7f000001:0050"));
	cr_assert(!memcmp(a, "smc_preload.1/7f000001:9c40-7f000001:0050", n));
	other.port = 81;
	cr_assert_eq(rv_name(&client, &other, b), n);
	cr_assert_neq(memcmp(a, b, n), 0);
	cr_assert_lt(rv_name(&six, &six, a), sizeof(a));
}

/* ---- the kernel's answers ---- */

static size_t answer_of(uint8_t *to, uint16_t type, uint32_t sequence, const void *body, size_t n)
{
	struct nlmsghdr h = { .nlmsg_len = (uint32_t)(NLMSG_HDRLEN + n), .nlmsg_type = type, .nlmsg_seq = sequence };

	memcpy(to, &h, sizeof(h));
	memcpy(to + NLMSG_HDRLEN, body, n);
	return h.nlmsg_len;
}

Test(diag, the_request_asks_for_one_socket)
{
	uint8_t r[DIAG_REQUEST_SIZE];
	struct inet_diag_req_v2 body;

	diag_request(r, 7, &server, &client);
	memcpy(&body, r + NLMSG_HDRLEN, sizeof(body));
	cr_assert_eq(body.sdiag_protocol, IPPROTO_TCP);
	cr_assert_eq(body.id.idiag_sport, htons(80));
	cr_assert_eq(body.id.idiag_dport, htons(40000));
	cr_assert_eq(body.id.idiag_cookie[0], INET_DIAG_NOCOOKIE);
}

Test(diag, an_answer_tells_who)
{
	struct inet_diag_msg m = { .idiag_state = 1, .idiag_uid = 1000, .idiag_inode = 5, .id.idiag_cookie = { 7, 1 } };
	struct diag_socket s;
	uint8_t bytes[256];
	size_t n = answer_of(bytes, SOCK_DIAG_BY_FAMILY, 3, &m, sizeof(m));

	cr_assert_eq(diag_answer(bytes, n, 3, &s), 0);
	cr_assert(s.uid == 1000 && s.inode == 5 && s.state == 1 && s.cookie == (UINT64_C(1) << 32 | 7));
	cr_assert_eq(diag_answer(bytes, n, 4, &s), -EAGAIN);
	for (size_t cut = 0; cut < n; cut++)
		cr_assert_eq(diag_answer(bytes, cut, 3, &s), -EPROTO, "%zu bytes", cut);
}

Test(diag, errors_are_the_kernels)
{
	struct nlmsgerr e = { .error = -ENOENT };
	struct diag_socket s;
	uint8_t bytes[256];
	size_t n = answer_of(bytes, NLMSG_ERROR, 3, &e, sizeof(e));

	cr_assert_eq(diag_answer(bytes, n, 3, &s), -ENOENT);
	cr_assert_eq(diag_answer(bytes, n - 1, 3, &s), -EPROTO);
	n = answer_of(bytes, NLMSG_DONE, 3, &e, sizeof(e));
	cr_assert_eq(diag_answer(bytes, n, 3, &s), -EPROTO);
}
