/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_PROCESS_H
#define SMC_PRELOAD_PROCESS_H

#include <stdbool.h>

/* fork, exec, spawn and exit: what happens to connections when processes come and go. */

/* Registers the fork handlers. */
void process_start(void);

/* False in a vforked child: it runs on the parent's memory, with descriptors of its own, so nothing may be
 * written down. A system call: only where a descriptor of ours is being made or closed. */
bool process_is_own(void);

/* This process, without a system call (a vforked child: its parent). */
int process_pid(void);

#endif
