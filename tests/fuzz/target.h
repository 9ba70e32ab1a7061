/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_FUZZ_TARGET_H
#define SMC_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* What libFuzzer calls, and replay.c does without it: any bytes whatever; what must not happen aborts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
