/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/start.h"
#include "core/config.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/stats.h"
#include "core/wait.h"
#include "preload/fdtable.h"
#include "preload/process.h"
#include "preload/raw.h"
#include "transport/shm/bell.h"

#include <stdlib.h>

static struct smc_lock starting;
static _Atomic int started, stats_started;

static void bad_setting(const char *name, const char *value)
{
	smc_log(1, "setting name=%s value=%.64s ignored", name, value);
}

static void open_log(void)
{
	int fd;

	if (!smc_config.debug)
		return;
	if (smc_config.debug_file)
		fd = (int)raw_call4(SYS_openat, AT_FDCWD, smc_config.debug_file,
				    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
	else
		fd = (int)raw_call3(SYS_fcntl, 2, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || (fd = fdtable_make_internal(fd)) < 0)
		return;
	smc_log_open(fd, &smc_stats_totals()->log_dropped);
	smc_log_level = smc_config.debug;
}

/* secure_getenv: a set-user-id program must not write to a file of the user's choice */
static char *get(const char *name)
{
	return secure_getenv(name);
}

void start_once(void)
{
	if (atomic_load_explicit(&started, memory_order_acquire))
		return;
	raw_fill_sys();
	smc_lock(&starting);
	if (!started) {
		smc_config_load(&smc_config, get, NULL);
		open_log();
		if (smc_log_level)
			smc_config_load(&smc_config, get, bad_setting);
		smc_wait_totals = shm_totals = smc_stats_totals();
		process_start();
		atomic_store_explicit(&started, 1, memory_order_release);
	}
	smc_unlock(&starting);
}

void start_stats(void)
{
	int fd;

	if (atomic_load_explicit(&stats_started, memory_order_acquire))
		return;
	smc_lock(&starting);
	if (!stats_started) {
		if (smc_stats_open(&fd, (int)raw_call3(SYS_getpid, 0, 0, 0))) {
			smc_stats_fd_moved(fdtable_make_internal(fd));
			smc_wait_totals = shm_totals = smc_stats_totals();
		}
		atomic_store_explicit(&stats_started, 1, memory_order_release);
	}
	smc_unlock(&starting);
}

void start_fork_child(void)
{
	smc_lock_reset(&starting);
	smc_stats_forked();
	smc_wait_totals = shm_totals = smc_stats_totals();
	stats_started = 0;
}

__attribute__((constructor)) static void constructor(void)
{
	int saved = errno;

	real_resolve();
	start_once();
	errno = saved;
}
