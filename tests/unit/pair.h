/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_TESTS_UNIT_PAIR_H
#define SMC_TESTS_UNIT_PAIR_H

#include "core/stream.h"
#include "transport/shm/channel.h"
#include "transport/shm/segment.h"

/* Both ends of one connection in this process: a real TCP connection over loopback, and a segment between
 * two streams. end[0] connected, end[1] accepted; the segment was made by end[0]. */
struct pair {
	struct smc_stream end[2];
	struct smc_end shared[2];
	struct smc_stats_slot stats[2];
	struct shm_channel channel[2];
	struct shm_pool pool;
	struct shm_segment *segment;
	struct shm_attention *attention;
	struct shm_status status;
};

/* Connected, not attached. Ring sizes in bytes, powers of two >= 4096. */
void pair_make(struct pair *p, uint32_t ring0, uint32_t ring1);
/* Attaches one end, and lets it promise as at the end of a read that began before. */
void pair_attach(struct pair *p, int end);
void pair_free(struct pair *p);

#endif
