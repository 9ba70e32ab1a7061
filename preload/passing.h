/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_PASSING_H
#define SMC_PRELOAD_PASSING_H

#include <sys/socket.h>

/* A message with control data is about to be sent: connections whose descriptors it carries (SCM_RIGHTS) go
 * back to TCP first, for the receiver may not have the library. */
void passing_look(const struct msghdr *msg);

#endif
