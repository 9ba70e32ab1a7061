/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_SCRIPTS_STAT_SCAN_H
#define SMC_SCRIPTS_STAT_SCAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "scripts/stat_model.h"

/*
 * Finds the statistics pages of all processes (of `only_pid` alone if that is not 0) under /proc,
 * and reads them into `model`. Processes that may not be looked at are left out; pages that make no
 * sense are left out with a line on standard error. Returns 0, or a negative errno if `only_pid`
 * (or /proc itself) cannot be looked at.
 */
int stat_scan(struct stat_model *model, pid_t only_pid);

#endif
