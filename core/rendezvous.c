/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/rendezvous.h"
#include "transport/transport.h"

#include <string.h>
#include <sys/socket.h>

#define RV_VERSION 1u

struct rv_msg rv_make(enum rv_type type)
{
	struct rv_msg m;

	memset(&m, 0, sizeof(m)); /* no stack bytes in the padding */
	m.magic = RV_MAGIC;
	m.version = RV_VERSION;
	m.type = (uint16_t)type;
	return m;
}

static bool addr_ok(const struct smc_stats_addr *a)
{
	return (a->family == AF_INET || a->family == AF_INET6) && a->port;
}

bool rv_check(const struct rv_msg *m, size_t length, unsigned fds)
{
	static const uint8_t least[RV_TYPES] = { [RV_JOIN] = 2 };
	static const uint8_t most[RV_TYPES] = { [RV_WELCOME] = 3, [RV_JOIN] = 2, [RV_OFFER] = 1 };

	if (length != sizeof(*m) || m->magic != RV_MAGIC || m->version != RV_VERSION || m->type == 0 ||
	    m->type >= RV_TYPES || fds < least[m->type] || fds > most[m->type])
		return false;
	if (m->type == RV_WELCOME)
		return fds == (m->have ? 0u : 3u);
	if (m->type == RV_HELLO || m->type == RV_OFFER)
		return addr_ok(&m->client) && addr_ok(&m->server) && m->client.family == m->server.family;
	return true;
}

static size_t put_hex(char *to, const uint8_t *bytes, size_t n)
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		to[2 * i] = digit[bytes[i] >> 4];
		to[2 * i + 1] = digit[bytes[i] & 15];
	}
	return 2 * n;
}

static size_t put_addr(char *to, const struct smc_stats_addr *a)
{
	const uint8_t port[2] = { (uint8_t)(a->port >> 8), (uint8_t)a->port };
	size_t n = put_hex(to, a->ip, a->family == AF_INET ? 4 : 16);

	to[n++] = ':';
	return n + put_hex(to + n, port, 2);
}

size_t rv_name(const struct smc_stats_addr *client, const struct smc_stats_addr *server, char name[107])
{
	static const char head[] = "smc_preload.1/";
	size_t n = sizeof(head) - 1;

	memcpy(name, head, n);
	n += put_addr(name + n, client);
	name[n++] = '-';
	return n + put_addr(name + n, server);
}

bool rv_same_addr(const struct smc_stats_addr *a, const struct smc_stats_addr *b)
{
	return a->family == b->family && a->port == b->port && !memcmp(a->ip, b->ip, sizeof(a->ip));
}
