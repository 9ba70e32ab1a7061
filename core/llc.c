/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/llc_wire.h"

#include <string.h>

/*
 * The head of every LLC message, and those that have next to nothing behind it.
 *
 *       v1                               v2
 *   0   type, 0x01..0x09                 0x20 + type
 *   1   length, 44                       length, 16 bits
 *   2   of ADD LINK: reject reason
 *   3   flags, 0x80 = response           the same
 *
 * The length of v2 has, in Linux, the byte order of the host that sent it, which who gets it cannot
 * know. It says nothing that the completion does not say: it is written as Linux writes it, and
 * not read.
 */
enum {
	TYPE_V2 = 0x20,
	LENGTH = 1,
	RESPONSE = 0x80,
	USER_DATA = 4,
};

static enum smc_wire_result get_test_link(const uint8_t *from, size_t n, struct smc_llc *message)
{
	(void)n;
	memcpy(message->test_link.user_data, from + USER_DATA,
	       sizeof(message->test_link.user_data));
	return SMC_WIRE_OK;
}

static void put_test_link(const struct smc_llc *message, uint8_t *to)
{
	memcpy(to + USER_DATA, message->test_link.user_data, sizeof(message->test_link.user_data));
}

size_t llc_size_fixed(const struct smc_llc *message)
{
	(void)message;
	return SMC_LLC_SIZE;
}

enum { V1 = 1 << 1, V2 = 1 << 2 };

static const struct kind {
	unsigned versions;
	enum smc_wire_result (*get)(const uint8_t *from, size_t n, struct smc_llc *message);
	size_t (*size)(const struct smc_llc *message);
	void (*put)(const struct smc_llc *message, uint8_t *to);
} kinds[SMC_LLC_TYPES] = {
	[SMC_LLC_CONFIRM_LINK] = { V1 | V2, llc_get_confirm_link, llc_size_confirm_link,
				   llc_put_confirm_link },
	[SMC_LLC_ADD_LINK] = { V1 | V2, llc_get_add_link, llc_size_add_link, llc_put_add_link },
	[SMC_LLC_ADD_LINK_CONT] = { V1, llc_get_add_link_cont, llc_size_fixed,
				    llc_put_add_link_cont },
	[SMC_LLC_DELETE_LINK] = { V1 | V2, llc_get_delete_link, llc_size_fixed,
				  llc_put_delete_link },
	[SMC_LLC_REQ_ADD_LINK] = { V2, llc_get_req_add_link, llc_size_req_add_link,
				   llc_put_req_add_link },
	[SMC_LLC_CONFIRM_RKEY] = { V1 | V2, llc_get_confirm_rkey, llc_size_confirm_rkey,
				   llc_put_confirm_rkey },
	[SMC_LLC_TEST_LINK] = { V1 | V2, get_test_link, llc_size_fixed, put_test_link },
	[SMC_LLC_CONFIRM_RKEY_CONT] = { V1, llc_get_confirm_rkey_cont, llc_size_fixed,
					llc_put_confirm_rkey_cont },
	[SMC_LLC_DELETE_RKEY] = { V1 | V2, llc_get_delete_rkey, llc_size_delete_rkey,
				  llc_put_delete_rkey },
};

static const struct kind *kind_of(unsigned version, unsigned type)
{
	if (version < 1 || version > 2 || type >= SMC_LLC_TYPES ||
	    !(kinds[type].versions & 1u << version))
		return NULL;
	return &kinds[type];
}

enum smc_wire_result smc_llc_decode(const uint8_t *bytes, size_t n, struct smc_llc *message)
{
	struct smc_llc m;
	const struct kind *kind;
	enum smc_wire_result result;

	if (n < SMC_LLC_SIZE)
		return SMC_WIRE_SHORT;
	memset(&m, 0, sizeof(m));
	m.version = bytes[0] < TYPE_V2 ? 1 : 2;
	m.type = bytes[0] & ~(unsigned)TYPE_V2;
	m.response = bytes[LLC_FLAGS] & RESPONSE;
	kind = kind_of(m.version, m.type);
	if (!kind)
		return SMC_WIRE_TYPE;
	if (m.version == 1 && bytes[LENGTH] != SMC_LLC_SIZE)
		return SMC_WIRE_LENGTH;
	result = kind->get(bytes, n, &m);
	if (result == SMC_WIRE_OK)
		*message = m;
	return result;
}

size_t smc_llc_encode(const struct smc_llc *message, uint8_t *to, size_t room)
{
	const struct kind *kind = kind_of(message->version, message->type);
	size_t size = kind ? kind->size(message) : 0;
	const uint16_t length = (uint16_t)size;

	if (size == 0 || size > room)
		return 0;
	memset(to, 0, size);
	if (message->version == 1) {
		to[0] = (uint8_t)message->type;
		to[LENGTH] = SMC_LLC_SIZE;
	} else {
		to[0] = (uint8_t)(TYPE_V2 + message->type);
		memcpy(to + LENGTH, &length, sizeof(length));
	}
	if (message->response)
		to[LLC_FLAGS] = RESPONSE;
	kind->put(message, to);
	return size;
}
