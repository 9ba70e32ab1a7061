/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/reason.h"

const char *smc_reason_text(unsigned reason)
{
	switch (reason) {
#define X(name, number, text)                                                                      \
	case number:                                                                               \
		return text;
		SMC_REASONS(X)
#undef X
	}
	return "unknown reason";
}
