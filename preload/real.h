/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_REAL_H
#define SMC_PRELOAD_REAL_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/*
 * The functions we stand in front of: real.NAME(...) is libc's, or that of the next preload. Each pointer
 * starts at a resolver, so a call at any moment works (before our constructor, in other libraries'
 * constructors, inside malloc): it looks up that one name, which allocates nothing when the name exists.
 */
struct real_calls {
#define CALL(ret, name, params, args) ret(*name) params;
#define VCALL CALL
#include "preload/calls.def"
#undef CALL
#undef VCALL
};

extern struct real_calls real;

/* Resolves all. Called by the constructor; harmless to call again. */
void real_resolve(void);

#define SMC_EXPORT __attribute__((visibility("default")))

#endif
