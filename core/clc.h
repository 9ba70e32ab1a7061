/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_CLC_H
#define SMC_CORE_CLC_H

#include "core/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * CLC: the messages by which two ends of a TCP connection agree on SMC, in the TCP stream itself
 * (RFC A.2).
 *
 *   client                     server
 *     |--- Proposal ------------>|   what I could use
 *     |<-- Accept ---------------|   what we use, and my buffer
 *     |--- Confirm ------------->|   my buffer
 *     |<-- Decline ------------->|   or, from either: plain TCP from the next byte on
 *
 * The codec takes one message as its length says (smc_clc_decode_head); nothing behind it may be
 * read from the socket, it may be the application's. Errors of the codecs: core/wire.h.
 */
enum smc_clc_type { SMC_CLC_PROPOSAL = 1, SMC_CLC_ACCEPT, SMC_CLC_CONFIRM, SMC_CLC_DECLINE };

/* What is offered in a version of the protocol. An Accept or Confirm has R or D. */
enum smc_clc_mode { SMC_CLC_R, SMC_CLC_D, SMC_CLC_NONE, SMC_CLC_BOTH };

static inline bool smc_clc_has_r(enum smc_clc_mode mode)
{
	return mode == SMC_CLC_R || mode == SMC_CLC_BOTH;
}

static inline bool smc_clc_has_d(enum smc_clc_mode mode)
{
	return mode == SMC_CLC_D || mode == SMC_CLC_BOTH;
}

enum {
	SMC_CLC_HEAD_SIZE = 8,
	/*
	 * The longest legal Proposal; other messages are shorter, but may grow. Of a longer message
	 * read this much, discard the rest, and decode what there is; so does Linux, and the
	 * trailer is not checked then.
	 */
	SMC_CLC_BUFFER = 652,

	SMC_CLC_PEER_ID_SIZE = 8,
	SMC_CLC_GID_SIZE = 16,
	SMC_CLC_MAC_SIZE = 6,
	SMC_CLC_EID_SIZE = 32, /* ASCII, padded with blanks; all 32 bytes compare */
	SMC_CLC_MAX_EIDS = 8,
	SMC_CLC_MAX_PREFIXES = 8,
	SMC_CLC_MAX_ISM = 8,
	SMC_CLC_MAX_GIDS =
		8, /* ours, for the list in a Confirm: the field can say 255, Linux sends 2 */
};

/* OS types of Decline and first contact extension. */
enum { SMC_CLC_OS_ZOS = 1, SMC_CLC_OS_LINUX = 2, SMC_CLC_OS_AIX = 3 };

#define SMC_CLC_FEATURE_EMULATED_ISM 0x0001 /* v2.1: understands ISM devices with 128-bit GIDs */

struct smc_clc_head {
	uint8_t type;	 /* enum smc_clc_type, 1..4 */
	uint8_t version; /* 1..15; 2 and above have the layout of v2 */
	uint8_t paths;	 /* the other four bits of that byte: the message's decoder knows them */
	uint16_t length; /* of the whole message */
};

struct smc_clc_prefix {
	uint8_t address[16];
	uint8_t bits;
};

/* An ISM device as v2 offers it. One with a 128-bit GID takes two entries, high half first (v2.1). */
struct smc_clc_ism {
	uint64_t gid;
	uint16_t chid;
};

struct smc_clc_proposal {
	uint8_t version;
	enum smc_clc_mode v1, v2; /* what is offered; in a message of version 1, v2 is NONE */
	uint8_t peer_id[SMC_CLC_PEER_ID_SIZE]; /* a v2-only Linux leaves id, gid and mac zero */
	uint8_t gid[SMC_CLC_GID_SIZE];	       /* of the RoCE port for v1 */
	uint8_t mac[SMC_CLC_MAC_SIZE];

	struct smc_clc_ism ism; /* the device of SMC-Dv1; only if v1 has D */

	/* the subnets of the client's address; only if v1 is not NONE */
	uint32_t subnet; /* IPv4, 0 for none */
	uint8_t subnet_bits;
	uint8_t n_prefixes;
	struct smc_clc_prefix prefixes[SMC_CLC_MAX_PREFIXES];

	/* v2 extension; only if v2 is not NONE. Without a UEID an offer of R in v2 is void. */
	uint8_t n_eids; /* user-defined ones, in the client's order of preference */
	uint8_t eids[SMC_CLC_MAX_EIDS][SMC_CLC_EID_SIZE];
	uint8_t roce2_gid[SMC_CLC_GID_SIZE];
	bool seid_offered;
	uint8_t release; /* 0 = v2.0; only with 1 and above: */
	uint8_t max_conns, max_links;
	uint16_t features;
	uint8_t vendor_oui[3], vendor_options[5];

	/* SMC-Dv2 extension; only if v2 has D. If the sender left it out, its offer of D is void. */
	bool smcd2;
	uint8_t seid[SMC_CLC_EID_SIZE];
	uint8_t n_isms;
	struct smc_clc_ism isms[SMC_CLC_MAX_ISM];
};

/* The sender's end of the connection, SMC-R. */
struct smc_clc_r_end {
	uint8_t peer_id[SMC_CLC_PEER_ID_SIZE];
	uint8_t gid[SMC_CLC_GID_SIZE];
	uint8_t mac[SMC_CLC_MAC_SIZE];
	uint32_t qpn, psn; /* 24 bits */
	uint32_t rkey;
	uint64_t address;   /* of the RMB */
	uint32_t token;	    /* who gets this message names the connection by it in every CDC */
	uint32_t rmbe_size; /* bytes: 16 KiB << n, n = 0..15 */
	uint8_t rmbe_index; /* counts from 1 */
	uint8_t mtu;	    /* the code of enum ibv_mtu: 1 = 256 ... 5 = 4096 */
};

/* The same, SMC-D. */
struct smc_clc_d_end {
	uint64_t gid, gid_extension; /* the extension: lower half of a 128-bit GID, v2 */
	uint64_t token;		     /* of the DMB */
	uint32_t dmbe_size;	     /* bytes: 16 KiB << n */
	uint8_t dmbe_index;	     /* counts from 0 */
	uint8_t link_id[4];	     /* opaque */
	uint16_t chid;		     /* v2 */
};

/* Of the host, at the first contact; v2 only. */
struct smc_clc_first_contact {
	bool direct; /* R: the sender reaches the peer without an IP gateway */
	uint8_t os, release;
	uint8_t host_name[32]; /* ASCII, padded with blanks */
	/* only with release 1 and above */
	uint8_t max_conns, max_links;
	uint16_t features;
	uint32_t vendor_options;
	/* only in a Confirm of SMC-R; decoding keeps the first ones of a longer list */
	uint8_t n_gids;
	uint8_t gids[SMC_CLC_MAX_GIDS][SMC_CLC_GID_SIZE];
};

/* An Accept or a Confirm: they differ in who sends them. */
struct smc_clc_answer {
	enum smc_clc_type type;
	uint8_t version;
	enum smc_clc_mode mode;
	bool first_contact;
	struct smc_clc_r_end r;		    /* mode R */
	struct smc_clc_d_end d;		    /* mode D */
	uint8_t eid[SMC_CLC_EID_SIZE];	    /* the one agreed on; v2 */
	struct smc_clc_first_contact first; /* v2, and first_contact */
};

struct smc_clc_decline {
	uint8_t version;
	bool out_of_sync; /* forget the link group you have with me, too */
	uint8_t peer_id[SMC_CLC_PEER_ID_SIZE];
	uint32_t diagnosis; /* enum smc_clc_diagnosis, core/clc_diagnosis.h */
	uint8_t os;	    /* v2 */
	uint32_t more[4];   /* further codes, v2; Linux sends 0 */
};

/* The first 8 bytes of a message: enough to know what it is and how much to read. */
enum smc_wire_result smc_clc_decode_head(const uint8_t *bytes, size_t n, struct smc_clc_head *head);

enum smc_wire_result smc_clc_decode_proposal(const uint8_t *bytes, size_t n,
					     struct smc_clc_proposal *proposal);
enum smc_wire_result smc_clc_decode_answer(const uint8_t *bytes, size_t n,
					   struct smc_clc_answer *answer);
enum smc_wire_result smc_clc_decode_decline(const uint8_t *bytes, size_t n,
					    struct smc_clc_decline *decline);

size_t smc_clc_encode_proposal(const struct smc_clc_proposal *proposal, uint8_t *to, size_t room);
size_t smc_clc_encode_answer(const struct smc_clc_answer *answer, uint8_t *to, size_t room);
size_t smc_clc_encode_decline(const struct smc_clc_decline *decline, uint8_t *to, size_t room);

#endif
