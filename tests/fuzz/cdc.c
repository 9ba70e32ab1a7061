/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/recode.h"
#include "tests/fuzz/target.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!recode_is_stable(RECODE_CDC, data, size))
		abort();
	return 0;
}
