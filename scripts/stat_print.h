/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_SCRIPTS_STAT_PRINT_H
#define SMC_SCRIPTS_STAT_PRINT_H

#include <stdio.h>

#include "scripts/stat_model.h"

/* For people: a table of connections, then one of processes. */
void stat_print_table(const struct stat_model *model, FILE *to);

/* For programs; smc_stat(1) tells the names. */
void stat_print_json(const struct stat_model *model, FILE *to);

#endif
