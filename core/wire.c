/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/wire.h"

const char *smc_wire_text(enum smc_wire_result result)
{
	switch (result) {
#define X(name, text)                                                                              \
	case SMC_WIRE_##name:                                                                      \
		return text;
		SMC_WIRE_RESULTS(X)
#undef X
	}
	return "unknown result";
}
