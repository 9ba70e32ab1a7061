/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/sys.h"

struct smc_sys smc_sys;
