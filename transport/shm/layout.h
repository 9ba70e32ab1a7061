/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_TRANSPORT_SHM_LAYOUT_H
#define SMC_TRANSPORT_SHM_LAYOUT_H

#include "transport/transport.h"

/*
 * The memory two processes share. Either end may be hostile: every number is copied once and checked
 * before use, offsets are masked to the ring, and nothing here is a pointer. Both ends must run the same
 * SHM_VERSION (told in the rendezvous), so the layout may change freely between versions.
 */
#define SHM_VERSION 1u

/* Lines are kept apart by two cache lines: the adjacent-line prefetcher pairs them. */
#define SHM_LINE 128

/* One direction of one connection. */
struct shm_dir {
	/* written by the writer */
	_Alignas(SHM_LINE) _Atomic uint64_t prod; /* offset after the last byte written */
	_Atomic uint64_t opened;		  /* first offset in the ring, SHM_NONE before */
	_Atomic uint32_t prod_cpu;		  /* CPU of the last write */
	_Atomic uint32_t finished;		  /* prod is the last there will be */

	/* written by the reader; the writer opens and may freeze it */
	_Alignas(SHM_LINE) _Atomic uint64_t cons; /* offset of the first byte not taken << 1 | frozen */
	_Atomic uint32_t ready;			  /* the reader looks here */

	/* set by the side that sleeps, cleared by the side that wakes */
	_Alignas(SHM_LINE) struct smc_waiter reader;
	_Alignas(SHM_LINE) struct smc_waiter writer;
};

#define SHM_NONE UINT64_MAX
#define SHM_FROZEN 1u

/* Start of a segment; the rings follow at SHM_HEADER: first that of dir[0], then that of dir[1]. */
struct shm_segment_header {
	struct shm_dir dir[2];		      /* [0] is written by the side that made the segment */
	_Alignas(SHM_LINE) _Atomic uint32_t released; /* bit per side: done with it */
};

#define SHM_HEADER 4096
_Static_assert(sizeof(struct shm_segment_header) <= SHM_HEADER, "move SHM_HEADER up by a page");

/* Which connections of a link want attention: bits set by one side, cleared by the other. */
#define SHM_LINK_SLOTS 16384u
struct shm_attention {
	_Alignas(SHM_LINE) _Atomic uint64_t summary[SHM_LINK_SLOTS / 64 / 64]; /* a bit per word of `bits` */
	_Alignas(SHM_LINE) _Atomic uint64_t bits[SHM_LINK_SLOTS / 64];	       /* a bit per connection */
};

/* One per link (pair of processes). [i] is attention wanted from side i. */
struct shm_link_page {
	struct shm_attention side[2];
};

/* One per process, writable by it alone, mapped read-only by its peers. */
struct shm_status {
	_Alignas(SHM_LINE) _Atomic uint32_t asleep; /* threads that only the doorbell wakes */
};

#endif
