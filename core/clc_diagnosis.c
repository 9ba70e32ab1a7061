/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clc_diagnosis.h"

const char *smc_clc_diagnosis_text(uint32_t diagnosis)
{
	switch (diagnosis) {
#define X(name, number, text)                                                                      \
	case number:                                                                               \
		return text;
		SMC_CLC_DIAGNOSES(X)
#undef X
	}
	return "unknown diagnosis";
}
