/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/recode.h"

#include "core/cdc.h"
#include "core/clc.h"
#include "core/llc.h"

#include <string.h>

static enum smc_wire_result recode_proposal(const uint8_t *bytes, size_t n, uint8_t *to,
					    size_t *n_to)
{
	struct smc_clc_proposal p;
	enum smc_wire_result result = smc_clc_decode_proposal(bytes, n, &p);

	if (result == SMC_WIRE_OK)
		*n_to = smc_clc_encode_proposal(&p, to, RECODE_MAX);
	return result;
}

static enum smc_wire_result recode_answer(const uint8_t *bytes, size_t n, uint8_t *to, size_t *n_to)
{
	struct smc_clc_answer a;
	enum smc_wire_result result = smc_clc_decode_answer(bytes, n, &a);

	if (result == SMC_WIRE_OK)
		*n_to = smc_clc_encode_answer(&a, to, RECODE_MAX);
	return result;
}

static enum smc_wire_result recode_decline(const uint8_t *bytes, size_t n, uint8_t *to,
					   size_t *n_to)
{
	struct smc_clc_decline d;
	enum smc_wire_result result = smc_clc_decode_decline(bytes, n, &d);

	if (result == SMC_WIRE_OK)
		*n_to = smc_clc_encode_decline(&d, to, RECODE_MAX);
	return result;
}

static enum smc_wire_result recode_clc(const uint8_t *bytes, size_t n, uint8_t *to, size_t *n_to)
{
	struct smc_clc_head head;
	enum smc_wire_result result = smc_clc_decode_head(bytes, n, &head);

	if (result != SMC_WIRE_OK)
		return result;
	switch ((enum smc_clc_type)head.type) {
	case SMC_CLC_PROPOSAL:
		return recode_proposal(bytes, n, to, n_to);
	case SMC_CLC_ACCEPT:
	case SMC_CLC_CONFIRM:
		return recode_answer(bytes, n, to, n_to);
	case SMC_CLC_DECLINE:
		return recode_decline(bytes, n, to, n_to);
	}
	return SMC_WIRE_TYPE;
}

static enum smc_wire_result recode_llc(const uint8_t *bytes, size_t n, uint8_t *to, size_t *n_to)
{
	struct smc_llc m;
	enum smc_wire_result result = smc_llc_decode(bytes, n, &m);

	if (result == SMC_WIRE_OK)
		*n_to = smc_llc_encode(&m, to, RECODE_MAX);
	return result;
}

static enum smc_wire_result recode_cdc(const uint8_t *bytes, size_t n, uint8_t *to, size_t *n_to)
{
	struct smc_cdc c;
	enum smc_wire_result result = smc_cdc_decode(bytes, n, &c);

	if (result == SMC_WIRE_OK)
		*n_to = smc_cdc_encode(&c, to, RECODE_MAX);
	return result;
}

enum smc_wire_result recode(enum recode_kind kind, const uint8_t *bytes, size_t n, uint8_t *to,
			    size_t *n_to)
{
	*n_to = 0;
	switch (kind) {
	case RECODE_CLC:
		return recode_clc(bytes, n, to, n_to);
	case RECODE_LLC:
		return recode_llc(bytes, n, to, n_to);
	case RECODE_CDC:
		return recode_cdc(bytes, n, to, n_to);
	}
	return SMC_WIRE_TYPE;
}

bool recode_is_stable(enum recode_kind kind, const uint8_t *bytes, size_t n)
{
	uint8_t once[RECODE_MAX], twice[RECODE_MAX];
	size_t n_once, n_twice;

	if (recode(kind, bytes, n, once, &n_once) != SMC_WIRE_OK)
		return true;
	if (n_once == 0 || recode(kind, once, n_once, twice, &n_twice) != SMC_WIRE_OK)
		return false;
	return n_once == n_twice && !memcmp(once, twice, n_once);
}
