/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_CLC_WIRE_H
#define SMC_CORE_CLC_WIRE_H

#include "core/clc.h"

/* What the decoders and encoders of the CLC messages share; for core/clc*.c alone. */

enum {
	CLC_TRAILER_SIZE = 4,

	/* bits of the last byte of the head, below the version */
	CLC_PATHS_V1 = 0x03,	  /* enum smc_clc_mode: offered in v1; of Accept, Confirm: chosen */
	CLC_PATHS_V2_SHIFT = 2,	  /* the same, offered in v2 */
	CLC_FIRST_CONTACT = 0x08, /* Accept, Confirm */
	CLC_OUT_OF_SYNC = 0x08,	  /* Decline */
};

/* A message whose frame holds. Without its trailer, bytes[0] to bytes[end - 1] are there. */
struct clc_frame {
	struct smc_clc_head head;
	const uint8_t *bytes;
	size_t end;
};

/* Everything but the contents. `types` has a bit (1 << type) for each type that is welcome. */
enum smc_wire_result clc_open(const uint8_t *bytes, size_t n, unsigned types,
			      struct clc_frame *frame);

/*
 * Clears a message of that length, trailer included, and writes its head and trailer. False if it
 * does not fit or the version cannot be written.
 */
bool clc_begin(uint8_t *to, size_t room, const struct smc_clc_head *head, bool smcd);

#endif
