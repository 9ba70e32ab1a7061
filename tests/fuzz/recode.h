/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_FUZZ_RECODE_H
#define SMC_FUZZ_RECODE_H

#include "core/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decoding any message and writing it again. */
enum recode_kind { RECODE_CLC, RECODE_LLC, RECODE_CDC };

#define RECODE_MAX 8192

/* Decodes, and if that went well encodes to `to`, of RECODE_MAX bytes; *n_to is 0 if that cannot be. */
enum smc_wire_result recode(enum recode_kind kind, const uint8_t *bytes, size_t n, uint8_t *to,
			    size_t *n_to);

/*
 * What holds of any bytes whatever: a message that is accepted can be written, and what is written
 * is accepted and written the same again. True also of what is refused.
 */
bool recode_is_stable(enum recode_kind kind, const uint8_t *bytes, size_t n);

#endif
