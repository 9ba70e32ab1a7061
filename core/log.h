/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_LOG_H
#define SMC_CORE_LOG_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * The debug log: nothing unless SMC_DEBUG or SMC_DEBUG_FILE asks for it. A line is made on the stack and
 * given to the kernel by one raw write; it never allocates, locks, blocks or calls an intercepted function.
 * To a pipe or terminal that is full the line is dropped and counted. Lines look like
 *
 *     smc[PID] event key=value ...
 *
 * Level 1 is the control path (a few lines per connection), 2 adds changes of carrier.
 */
void smc_log_open(int fd, _Atomic uint64_t *dropped); /* -1 closes; the descriptor stays the caller's */

extern unsigned smc_log_level; /* what is logged: 0 nothing */

void smc_log_write(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define smc_log(level, ...)                                                                        \
	do {                                                                                       \
		if (__builtin_expect(smc_log_level >= (level), 0))                                 \
			smc_log_write(__VA_ARGS__);                                                \
	} while (0)

#endif
