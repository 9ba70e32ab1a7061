/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_CLC_DIAGNOSIS_H
#define SMC_CORE_CLC_DIAGNOSIS_H

#include <stdint.h>

/*
 * The diagnosis codes of a CLC Decline (RFC A.2.5), as Linux uses them. Other stacks have codes of
 * their own: one that is not in the list is told, not judged.
 *
 *   X(name, number, text)
 */
#define SMC_CLC_DIAGNOSES(X)                                                                       \
	X(MEMORY, 0x01010000, "out of memory")                                                     \
	X(TIMEOUT_CONFIRM_LINK, 0x02010000, "no CONFIRM LINK in time")                             \
	X(TIMEOUT_ADD_LINK, 0x02020000, "no ADD LINK in time")                                     \
	X(CONFIG, 0x03000000, "configuration error")                                               \
	X(PEER_NO_SMC, 0x03010000, "the peer offers no usable SMC")                                \
	X(IPSEC, 0x03020000, "IPsec is in use")                                                    \
	X(NO_DEVICE, 0x03030000, "no SMC device")                                                  \
	X(NO_SMCD_DEVICE, 0x03030001, "no SMC-D device")                                           \
	X(NO_SMCR_DEVICE, 0x03030002, "no SMC-R device")                                           \
	X(NO_ISMV2, 0x03030003, "no support for SMC-Dv2")                                          \
	X(NO_V2_EXTENSION, 0x03030004, "the Proposal lacks the v2 extension")                      \
	X(NO_SMCDV2_EXTENSION, 0x03030005, "the Proposal lacks the SMC-Dv2 extension")             \
	X(NO_SEID, 0x03030006, "the peer sent no system EID")                                      \
	X(NO_SMCDV2_DEVICE, 0x03030007, "no matching SMC-Dv2 device")                              \
	X(NO_UEID, 0x03030008, "no user-defined EID in common")                                    \
	X(RELEASE, 0x03030009, "release of Accept and Confirm differ")                             \
	X(MAX_CONNS, 0x0303000a, "no agreement on connections per link group")                     \
	X(MAX_LINKS, 0x0303000b, "no agreement on links per link group")                           \
	X(MODE, 0x03040000, "a mode or version that was not offered")                              \
	X(RMBE_EYECATCHER, 0x03050000, "the peer wants eyecatchers in RMBEs")                      \
	X(SOCKOPT, 0x03060000, "a socket option that SMC does not support")                        \
	X(PREFIX, 0x03070000, "not in the same IP subnet")                                         \
	X(VLAN_UNKNOWN, 0x03080000, "VLAN of the IP device not determined")                        \
	X(VLAN_REGISTER, 0x03090000, "VLAN not registered at the ISM device")                      \
	X(NO_ACTIVE_LINK, 0x030a0000, "no active link in the link group")                          \
	X(UNKNOWN_LINK, 0x030b0000, "a link that is not known here")                               \
	X(VERSION, 0x030c0000, "SMC versions differ")                                              \
	X(NO_DMB, 0x030d0000, "no more DMBs")                                                      \
	X(NO_ROUTE, 0x030e0000, "SMC-Rv2: no route to the peer")                                   \
	X(NOT_DIRECT, 0x030f0000, "SMC-Rv2: the peer says indirect, the route is direct")          \
	X(SYNC, 0x04000000, "out of sync: no such link group here")                                \
	X(PEER_DECLINED, 0x05000000, "the peer declined (never sent)")                             \
	X(INTERNAL, 0x09990000, "internal error")                                                  \
	X(RTOKEN, 0x09990001, "handling of an RMB's key failed")                                   \
	X(QP, 0x09990002, "the queue pair did not get ready")                                      \
	X(BUFFERS, 0x09990003, "registering buffers or CONFIRM RKEY failed")

enum smc_clc_diagnosis {
#define X(name, number, text) SMC_CLC_DIAG_##name = (number),
	SMC_CLC_DIAGNOSES(X)
#undef X
};

/* One line of meaning, without a full stop; "unknown diagnosis" for a number that is not in the list. */
const char *smc_clc_diagnosis_text(uint32_t diagnosis);

#endif
