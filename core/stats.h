/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_STATS_H
#define SMC_CORE_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What a process tells smc_stat: one memfd named SMC_STATS_NAME, held open by the library, laid out as
 * struct smc_stats_page followed by slots. smc_stat (same user, or root) finds it by the link text of
 * /proc/PID/fd/N ("/memfd:smc_preload_stats (deleted)") and maps it read-only. All integers are in host
 * order; a reader must take care that the writer is running: it copies a slot, and drops the copy when
 * `seq` was odd or changed meanwhile. Counters are in bytes unless named otherwise and only grow.
 */
#define SMC_STATS_NAME "smc_preload_stats"
#define SMC_STATS_MAGIC 0x534d4353u /* "SMCS" */
#define SMC_STATS_VERSION 1u

enum smc_carrier { SMC_CARRIER_TCP = 0, SMC_CARRIER_SHM = 1, SMC_CARRIER_RDMA = 2, SMC_CARRIERS = 3 };

enum smc_role { SMC_ROLE_CONNECTOR = 0, SMC_ROLE_ACCEPTOR = 1 };

/* An IPv4 (also v4-mapped, family AF_INET) or IPv6 address, port in host order. */
struct smc_stats_addr {
	uint16_t family; /* AF_INET, AF_INET6, 0 = unknown */
	uint16_t port;
	uint8_t ip[16]; /* network order, IPv4 in the first four bytes */
};

/* One connection. In use while `used` is non-zero. */
struct smc_stats_slot {
	_Atomic uint32_t used;
	_Atomic uint32_t seq;	     /* odd while role, fd or addresses are being written */
	_Atomic uint32_t reason;     /* enum smc_reason */
	_Atomic uint8_t tx_carrier;  /* enum smc_carrier: what moves bytes written now */
	_Atomic uint8_t rx_carrier;  /* ... and bytes read now */
	uint8_t role;		     /* enum smc_role */
	uint8_t pad;
	int32_t fd;		     /* one of the descriptors, as a hint for people */
	_Atomic int32_t pid;	     /* process that uses it (a forked child may use an inherited one) */
	_Atomic uint32_t ring_tx, ring_rx; /* size of the rings, 0 without */
	struct smc_stats_addr local, remote;
	_Atomic uint64_t tx[SMC_CARRIERS], rx[SMC_CARRIERS];
	_Atomic uint32_t ups, downs; /* changes of carrier so far, both directions together */
};

/* Sums over closed connections and process-wide events; open connections are in the slots. */
struct smc_stats_totals {
	_Atomic uint64_t tx[SMC_CARRIERS], rx[SMC_CARRIERS];
	_Atomic uint64_t closed;       /* connections closed */
	_Atomic uint64_t closed_fast;  /* ... of which SMC carried at least one byte */
	_Atomic uint64_t doorbells;    /* system calls made to wake the other end */
	_Atomic uint64_t sleeps;       /* waits that ended in a system call */
	_Atomic uint64_t spins_won;    /* waits that ended while spinning */
	_Atomic uint64_t spins_lost;   /* spins that ended in sleep */
	_Atomic uint64_t refused;      /* rendezvous messages refused (garbage, wrong user) */
	_Atomic uint64_t pool_hits;    /* segments taken from a pool */
	_Atomic uint64_t pool_misses;  /* segments that had to be made */
	_Atomic uint64_t log_dropped;  /* debug lines dropped rather than block */
	_Atomic uint64_t untracked;    /* connections that had no slot */
};

struct smc_stats_page {
	uint32_t magic, version;
	uint32_t header_size; /* offset of the first slot */
	uint32_t slot_size;
	_Atomic uint32_t slots; /* allocated so far; grows */
	uint32_t max_slots;
	int32_t pid;
	uint32_t pad;
	uint64_t start_ns; /* CLOCK_REALTIME when made */
	struct smc_stats_totals totals;
};

/* ---- for the process that is told about ---- */

/* Makes the page of this process; *fd is its memfd, the caller's to keep open and out of the way. Without
 * one (no memory, no memfd) everything below still works, and nobody sees it: returns false. */
bool smc_stats_open(int *fd, int pid);
/* The caller moved the memfd to another number. */
void smc_stats_fd_moved(int fd);
/* In a forked child: the page in use is the parent's. Slots taken from it stay valid. */
void smc_stats_forked(void);
/* Never NULL: a private one when there is no page. */
struct smc_stats_totals *smc_stats_totals(void);
/* NULL: none left (counted). */
struct smc_stats_slot *smc_stats_slot_take(void);
/* Adds the slot to the totals of this process and frees it. */
void smc_stats_slot_drop(struct smc_stats_slot *slot);

#endif
