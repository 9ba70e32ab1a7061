/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_LLC_H
#define SMC_CORE_LLC_H

#include "core/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * LLC: the messages by which two ends of a link group manage its links and the keys of their
 * memory, sent over the queue pair (RFC A.3). The version of the link group, agreed on by CLC, is
 * that of all its messages.
 *
 * A response mostly is the request with `response` set; CONFIRM LINK, ADD LINK and ADD LINK
 * CONTINUATION carry what is the responder's own. Errors of the codecs: core/wire.h; a message that
 * is refused is dropped, Linux says nothing either. CDC messages (core/cdc.h) come on the same
 * queue pair: SMC_WIRE_TYPE here.
 */
enum smc_llc_type {
	SMC_LLC_CONFIRM_LINK = 1,
	SMC_LLC_ADD_LINK,
	SMC_LLC_ADD_LINK_CONT, /* v1 */
	SMC_LLC_DELETE_LINK,
	SMC_LLC_REQ_ADD_LINK, /* v2 */
	SMC_LLC_CONFIRM_RKEY,
	SMC_LLC_TEST_LINK,
	SMC_LLC_CONFIRM_RKEY_CONT, /* v1; not used by Linux, for three tokens are all there are */
	SMC_LLC_DELETE_RKEY,
	SMC_LLC_TYPES
};

enum {
	SMC_LLC_SIZE = 44,	 /* of every message of v1, and the least of v2 */
	SMC_LLC_MAX_SIZE = 4152, /* the longest of v2 by its counts; Linux has room for 8192 */
	SMC_LLC_MAX_ITEMS = 255, /* GIDs or keys in a message of v2 */
	SMC_LLC_MAC_SIZE = 6,
	SMC_LLC_GID_SIZE = 16,
	SMC_LLC_MAX_TOKENS = 3, /* in a message */
	SMC_LLC_V1_DELETE_RKEYS = 8,
	SMC_LLC_CONT_KEYS = 2, /* in an ADD LINK CONTINUATION */
	SMC_LLC_USER_DATA_SIZE = 16,
};

/* Why a DELETE LINK is sent, and how it is answered. */
enum smc_llc_delete_reason {
	SMC_LLC_DELETE_LOST_PATH = 0x00010000,
	SMC_LLC_DELETE_OPERATOR = 0x00020000,
	SMC_LLC_DELETE_PROGRAM = 0x00030000,
	SMC_LLC_DELETE_PROTOCOL = 0x00040000,
	SMC_LLC_DELETE_ASYMMETRIC = 0x00050000, /* an asymmetric link is not needed any more */
	SMC_LLC_DELETED = 0,
	SMC_LLC_DELETE_NO_LINK = 0x00100000,
	SMC_LLC_DELETE_NO_GROUP = 0x00200000,
};

/* The sender's end of a link. */
struct smc_llc_end {
	uint8_t mac[SMC_LLC_MAC_SIZE];
	uint8_t gid[SMC_LLC_GID_SIZE];
	uint32_t qpn; /* 24 bits */
	uint8_t link; /* its number, the server's choice */
};

struct smc_llc_confirm_link {
	struct smc_llc_end end;
	uint8_t no_eyecatcher; /* two bits, "none in my RMBEs": Linux sets both, and demands one */
	uint32_t user_id;      /* opaque */
	uint8_t max_links, max_conns;
};

/* An RMB under its key on the link that carries the message, and under the new link's. */
struct smc_llc_rkey {
	uint32_t known, new_key;
	uint64_t new_address;
};

struct smc_llc_add_link {
	struct smc_llc_end end;
	bool reject;	       /* response */
	uint8_t reject_reason; /* v1: 1 = no alternate path */
	uint8_t mtu;	       /* code of enum ibv_mtu: own, in a response the smaller of both */
	uint32_t psn;	       /* 24 bits */
	/* v2, but not in a response that rejects */
	bool direct;
	uint8_t target_gid[SMC_LLC_GID_SIZE];
	uint8_t n_rkeys;
	struct smc_llc_rkey rkeys[SMC_LLC_MAX_ITEMS];
};

struct smc_llc_add_link_cont {
	uint8_t link;	/* the new one */
	uint8_t n_left; /* keys still to come, those in this message included */
	struct smc_llc_rkey rkeys[SMC_LLC_CONT_KEYS];
};

struct smc_llc_delete_link {
	bool all, orderly;
	uint8_t link;	 /* 0 if all */
	uint32_t reason; /* enum smc_llc_delete_reason */
};

struct smc_llc_req_add_link {
	uint8_t n_gids; /* request: at least 1 */
	uint8_t gids[SMC_LLC_MAX_ITEMS][SMC_LLC_GID_SIZE];
};

/* An RMB as it is known on a link. */
struct smc_llc_token {
	uint8_t link; /* CONFIRM RKEY's first token is of the link that carries it, none said */
	uint32_t rkey;
	uint64_t address;
};

struct smc_llc_confirm_rkey {
	bool negative, retry; /* response */
	/*
	 * Tokens that follow the first; of CONFIRM RKEY CONTINUATION, that are still to come, those
	 * in this message included. Up to 3, as in Linux, though a CONFIRM RKEY carries two of
	 * them.
	 */
	uint8_t n_more;
	struct smc_llc_token tokens[SMC_LLC_MAX_TOKENS];
};

struct smc_llc_delete_rkey {
	bool negative;	 /* response: there was an unknown one */
	uint8_t errors;	 /* response: v1 a mask, bit 7 for the first; v2 how many were unknown */
	uint8_t n_rkeys; /* up to 8 in v1 */
	uint32_t rkeys[SMC_LLC_MAX_ITEMS]; /* a response of v2 has none */
};

struct smc_llc_test_link {
	uint8_t user_data[SMC_LLC_USER_DATA_SIZE];
};

struct smc_llc {
	uint8_t version; /* 1 or 2 */
	enum smc_llc_type type;
	bool response;
	union {
		struct smc_llc_confirm_link confirm_link;
		struct smc_llc_add_link add_link;
		struct smc_llc_add_link_cont add_link_cont;
		struct smc_llc_delete_link delete_link;
		struct smc_llc_req_add_link req_add_link;
		struct smc_llc_confirm_rkey confirm_rkey; /* and its continuation */
		struct smc_llc_test_link test_link;
		struct smc_llc_delete_rkey delete_rkey;
	};
};

/* `n`: what the completion says was received. */
enum smc_wire_result smc_llc_decode(const uint8_t *bytes, size_t n, struct smc_llc *message);

size_t smc_llc_encode(const struct smc_llc *message, uint8_t *to, size_t room);

#endif
