/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_CONFIG_H
#define SMC_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Settings, read once from the environment; libsmc_preload(7) documents each with default and range. */
struct smc_config {
	bool tcp_only;		/* SMC_CARRIER=tcp */
	unsigned debug;		/* SMC_DEBUG: 0 silent, 1 control path, 2 also waits and switches */
	const char *debug_file; /* SMC_DEBUG_FILE, NULL = standard error; points into the environment */
	uint32_t sndbuf;	/* SMC_SNDBUF: ring for bytes we write, a power of two */
	uint32_t rcvbuf;	/* SMC_RCVBUF: ring for bytes we read, a power of two */
	uint32_t spin_us;	/* SMC_SPIN_US */
	uint32_t upgrade_calls; /* SMC_UPGRADE_CALLS */
	uint64_t upgrade_bytes; /* SMC_UPGRADE_BYTES */
};

enum {
	SMC_RING_MIN = 16 * 1024,
	SMC_RING_MAX = 4 * 1024 * 1024,
	SMC_RING_DEFAULT = 128 * 1024,
};

extern struct smc_config smc_config;

/* Reads the environment through `get` (getenv in the library). A bad value keeps the default and is told
 * to `bad` (may be NULL), once per variable. */
void smc_config_load(struct smc_config *config, char *(*get)(const char *name),
		     void (*bad)(const char *name, const char *value));

/* "64K", "1M", "4096" -> bytes. Returns false on anything else (sign, empty, overflow, other suffix). */
bool smc_config_parse_size(const char *text, uint64_t *bytes);

/* The ring size for a wish in bytes: the next power of two within SMC_RING_MIN..SMC_RING_MAX. */
uint32_t smc_config_ring_size(uint64_t wish);

#endif
