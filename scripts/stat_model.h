/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_SCRIPTS_STAT_MODEL_H
#define SMC_SCRIPTS_STAT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/stats.h"

/*
 * What smc_stat found, as plain values: private copies, in range, safe to print. stat_scan fills
 * it, stat_table and stat_json show it.
 */

enum { STAT_COMM_LEN = 16, STAT_ADDR_LEN = 64 };

struct stat_bytes {
	uint64_t tx[SMC_CARRIERS], rx[SMC_CARRIERS];
};

struct stat_connection {
	pid_t pid;
	char comm[STAT_COMM_LEN];
	int fd;
	enum smc_role role;
	char local[STAT_ADDR_LEN], remote[STAT_ADDR_LEN];
	enum smc_carrier tx_carrier, rx_carrier;
	unsigned reason;
	struct stat_bytes bytes;
	uint32_t ring_tx, ring_rx;
	uint32_t ups, downs;
};

/* Process-wide numbers that are neither bytes nor derived: name in JSON, field of smc_stats_totals.
 */
#define STAT_COUNTERS(X)                                                                           \
	X(closed)                                                                                  \
	X(closed_fast)                                                                             \
	X(doorbells)                                                                               \
	X(sleeps)                                                                                  \
	X(spins_won)                                                                               \
	X(spins_lost)                                                                              \
	X(refused)                                                                                 \
	X(pool_hits)                                                                               \
	X(pool_misses)                                                                             \
	X(log_dropped)                                                                             \
	X(untracked)

struct stat_totals {
	struct stat_bytes bytes; /* of closed and open connections */
	uint64_t open;		 /* connections open now */
	uint64_t open_fast;	 /* ... of which SMC moves the bytes, both ways */
#define X(name) uint64_t name;
	STAT_COUNTERS(X)
#undef X
};

struct stat_process {
	pid_t pid;
	char comm[STAT_COMM_LEN];
	struct stat_totals totals;
};

struct stat_model {
	struct stat_connection *connections;
	size_t n_connections;
	struct stat_process *processes;
	size_t n_processes;
	struct stat_totals totals;
};

void stat_model_deinit(struct stat_model *model);

/* The arrays grow by one zeroed element, which is returned; the program ends if there is no memory.
 */
struct stat_connection *stat_model_add_connection(struct stat_model *model);
struct stat_process *stat_model_add_process(struct stat_model *model);

/* Sorts by pid and descriptor, keeps what belongs to `only_pid` (0 = everything), sums up. */
void stat_model_finish(struct stat_model *model, pid_t only_pid);

void stat_bytes_add(struct stat_bytes *sum, const struct stat_bytes *more);

/* shm or rdma where both directions are, else tcp. */
enum smc_carrier stat_connection_carrier(const struct stat_connection *connection);

const char *stat_carrier_name(enum smc_carrier carrier);
const char *stat_role_name(enum smc_role role);

#endif
