/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/log.h"
#include "core/sys.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

unsigned smc_log_level;

static int log_fd = -1;
static _Atomic uint64_t *log_dropped;

void smc_log_open(int fd, _Atomic uint64_t *dropped)
{
	log_fd = fd;
	log_dropped = dropped;
}

void smc_log_write(const char *format, ...)
{
	char line[512];
	va_list args;
	int n, head, fd = log_fd;

	if (fd < 0)
		return;
	head = snprintf(line, sizeof(line), "smc[%d] ", (int)getpid());
	va_start(args, format);
	n = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format, args);
	va_end(args);
	if (n < 0)
		return;
	n += head;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	/* The descriptor may be in blocking mode: ask before writing. An error beside POLLOUT is a pipe that nobody
	 * reads any more: writing would bring the application a SIGPIPE. */
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	if (smc_sys.poll(&p, 1, 0) <= 0 || p.revents != POLLOUT || smc_sys.write(fd, line, (size_t)n) != n)
		if (log_dropped)
			atomic_fetch_add_explicit(log_dropped, 1, memory_order_relaxed);
}
