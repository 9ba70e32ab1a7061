/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_TRANSPORT_SHM_CHANNEL_H
#define SMC_TRANSPORT_SHM_CHANNEL_H

#include "transport/shm/bell.h"
#include "transport/shm/layout.h"

struct shm_segment;

/* A channel whose rings are in a shared memory segment. */
struct shm_channel {
	struct smc_channel base;
	struct shm_dir *tx, *rx;
	uint8_t *tx_ring, *rx_ring;
	_Atomic uint64_t tx_cons_seen; /* the reader is at least here: saves looking at its cache line */
	_Atomic uint64_t rx_prod_seen; /* the writer is at least here */
	struct shm_peer_bell bell;
	struct shm_segment *segment;
	unsigned side;
};

/* `side`: 0 for the process that made the segment. Takes over `segment` (given back by ops->release). */
void shm_channel_init(struct shm_channel *c, struct shm_segment *segment, unsigned side,
		      const struct shm_peer_bell *bell);

#endif
