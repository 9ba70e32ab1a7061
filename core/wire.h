/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_WIRE_H
#define SMC_CORE_WIRE_H

#include <stdint.h>

/*
 * What the codecs of the SMC protocol (clc.h, llc.h, cdc.h) share.
 *
 * The convention of all of them:
 *
 * - Host structures and wire layouts are apart. Nothing is cast onto received bytes.
 * - A decoder is given bytes that nobody else can change, and how many there are. It looks at no other
 *   byte, checks every length, offset and count it follows, says what is wrong with the first one that
 *   does not hold, and writes its result only when all is well. Fields that a message does not have are
 *   zero in the result.
 * - An encoder returns the length of the message it wrote; 0, and nothing written, if there is no room or
 *   if the structure says what the message cannot. Reserved bytes are written zero.
 * - What is refused is what Linux refuses, or would read beyond the message for. What is merely odd is
 *   understood; that it is not wanted is for the negotiation to say.
 *
 * "RFC" in the comments is RFC 7609, whose appendix A has the formats of version 1. "v2" formats
 * are those of IBM's "Shared Memory Communications Version 2", with the release 1 ("v2.1")
 * additions, as Linux sends and reads them. Numbers are big-endian where nothing else is said.
 *
 *   X(name, text)
 */
#define SMC_WIRE_RESULTS(X)                                                                        \
	X(OK, "well-formed")                                                                       \
	X(SHORT, "fewer bytes than the message has")                                               \
	X(EYECATCHER, "no eyecatcher at the start")                                                \
	X(TRAILER, "no eyecatcher at the end")                                                     \
	X(VERSION, "version 0")                                                                    \
	X(TYPE, "not a type of message that is expected")                                          \
	X(MODE, "neither SMC-R nor SMC-D")                                                         \
	X(LENGTH, "a length that contradicts the contents")                                        \
	X(OFFSET, "an offset beyond its limit or the message")                                     \
	X(COUNT, "a count beyond its limit or the message")

enum smc_wire_result {
#define X(name, text) SMC_WIRE_##name,
	SMC_WIRE_RESULTS(X)
#undef X
};

/* One line of meaning, without a full stop. */
const char *smc_wire_text(enum smc_wire_result result);

#define SMC_WIRE_24BIT UINT32_C(0xffffff) /* the largest QP number and PSN */

static inline uint16_t wire_get16(const uint8_t *from)
{
	return (uint16_t)(from[0] << 8 | from[1]);
}

static inline uint32_t wire_get24(const uint8_t *from)
{
	return (uint32_t)from[0] << 16 | wire_get16(from + 1);
}

static inline uint32_t wire_get32(const uint8_t *from)
{
	return (uint32_t)wire_get16(from) << 16 | wire_get16(from + 2);
}

static inline uint64_t wire_get64(const uint8_t *from)
{
	return (uint64_t)wire_get32(from) << 32 | wire_get32(from + 4);
}

static inline void wire_put16(uint8_t *to, uint16_t value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}

static inline void wire_put24(uint8_t *to, uint32_t value)
{
	to[0] = (uint8_t)(value >> 16);
	wire_put16(to + 1, (uint16_t)value);
}

static inline void wire_put32(uint8_t *to, uint32_t value)
{
	wire_put16(to, (uint16_t)(value >> 16));
	wire_put16(to + 2, (uint16_t)value);
}

static inline void wire_put64(uint8_t *to, uint64_t value)
{
	wire_put32(to, (uint32_t)(value >> 32));
	wire_put32(to + 4, (uint32_t)value);
}

#endif
