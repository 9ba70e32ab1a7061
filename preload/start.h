/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_START_H
#define SMC_PRELOAD_START_H

#include "core/reason.h"

/*
 * Stages, each lazily and once, in this order:
 *   1. real calls    always available (real.h)
 *   2. start         raw calls, settings, debug log, fork handlers: by our constructor, or before by the
 *                    first wrapper that makes a TCP socket
 *   3. stats page    with the first connection
 *   4. service       with the first connection that is worth an upgrade (service.h)
 */
void start_once(void);
void start_stats(void);
/* Why no connection of this process may go up (settings, limits); SMC_REASON_NONE: they may. */
enum smc_reason start_tcp_reason(void);
void start_fork_child(void);

#endif
