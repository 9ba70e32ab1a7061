/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_SCRIPTS_STAT_PAGE_H
#define SMC_SCRIPTS_STAT_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "scripts/stat_model.h"

/*
 * Reads one statistics page. Whoever made it is not trusted, and writes on while we read:
 * everything is copied with pread() first (a mapping could be shrunk under us) and only copies are
 * judged.
 */
struct stat_page {
	int fd;
	uint32_t header_size, slot_size, slots;
	pid_t pid; /* as the page says */
	struct stat_totals totals;
};

/* Takes over `fd`. Returns NULL, or in a few words what is wrong with the page (`fd` is closed
 * then). */
const char *stat_page_open(struct stat_page *page, int fd);
void stat_page_close(struct stat_page *page);

/* Fills in connection `i`, all but `comm`; `pid` is what the slot says. False if the slot is free,
 * or is being written for so long that its writer must have died over it. */
bool stat_page_read(const struct stat_page *page, uint32_t i, struct stat_connection *connection);

#endif
