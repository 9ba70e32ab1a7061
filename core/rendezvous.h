/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_RENDEZVOUS_H
#define SMC_CORE_RENDEZVOUS_H

#include "core/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The messages two processes of one host exchange over a unix SEQPACKET socket to find out that they hold
 * the two ends of one TCP connection, and to share memory for it. Both run the same version of the library
 * (the version is checked), on the same host: so one fixed structure in host order serves all.
 *
 *   acceptor                       connector
 *      | connect to the connection's name |
 *      |--- HELLO ----------------------->|  who I am, which connection, both cookies
 *      |<-- WELCOME + 3 fds, or "have" ---|  attention page, doorbell, status page; or: we share a link already
 *      |--- JOIN + 2 fds ---------------->|  doorbell, status page: the socket is now the link
 *   either end of a link
 *      |--- OFFER [+ fd] ---------------->|  this connection, this segment, this slot
 *      |<-- ACCEPT or DECLINE ------------|
 *      |--- LEFT ------------------------>|  the sender takes nothing more from the channel of this slot
 */
enum rv_type { RV_HELLO = 1, RV_WELCOME, RV_JOIN, RV_OFFER, RV_ACCEPT, RV_DECLINE, RV_LEFT, RV_TYPES };

#define RV_MAGIC 0x31434d53u /* "SMC1" */
#define RV_TOKEN 16
#define RV_MAX_FDS 3

struct rv_msg {
	uint32_t magic;
	uint16_t version; /* SHM_VERSION */
	uint16_t type;
	uint8_t token[RV_TOKEN]; /* HELLO, WELCOME: names the process that sends, for its life */
	struct smc_stats_addr client, server; /* HELLO, OFFER: the TCP connection, as its connector sees it */
	uint64_t client_cookie, server_cookie; /* HELLO, OFFER: SO_COOKIE of the two sockets */
	uint32_t slot;		   /* OFFER ... LEFT: the connection's number on the link */
	uint32_t segment;	   /* OFFER */
	uint32_t ring_out, ring_in; /* OFFER: sizes, as the one who offers writes and reads them */
	uint32_t reason;	   /* DECLINE: enum smc_reason */
	uint32_t have;		   /* WELCOME: 1 = use the link we have */
};

struct rv_msg rv_make(enum rv_type type);

/* Is this a message, and does it come with as many descriptors as its type may have? */
bool rv_check(const struct rv_msg *m, size_t length, unsigned fds);

/* The abstract name of a connection's meeting place, without the leading NUL: its length, always below 108. */
size_t rv_name(const struct smc_stats_addr *client, const struct smc_stats_addr *server, char name[107]);

bool rv_same_addr(const struct smc_stats_addr *a, const struct smc_stats_addr *b);

#endif
