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
#include <sys/resource.h>
#include <sys/stat.h>

static struct smc_lock starting;
static _Atomic int started, stats_started;

/* With few descriptors the application needs all; a limit on file sizes also counts for memfds, and exceeding it
 * kills. The library then keeps out of the way altogether. */
enum { FDS_AT_LEAST = 64, FILE_SIZE_AT_LEAST = 64 * 1024 * 1024 };
static enum smc_reason tcp_reason;

enum smc_reason start_tcp_reason(void)
{
	return tcp_reason;
}

static bool limit_below(int resource, rlim_t least)
{
	struct rlimit limit;

	return !raw_call4(SYS_prlimit64, 0, resource, NULL, &limit) && limit.rlim_cur < least;
}

static enum smc_reason why_tcp(void)
{
	if (smc_config.tcp_only)
		return SMC_REASON_CONFIG;
	if (limit_below(RLIMIT_NOFILE, FDS_AT_LEAST))
		return SMC_REASON_NO_FDS;
	return limit_below(RLIMIT_FSIZE, FILE_SIZE_AT_LEAST) ? SMC_REASON_NO_MEMFD : SMC_REASON_NONE;
}

static void bad_setting(const char *name, const char *value)
{
	smc_log(1, "setting name=%s value=%.64s ignored", name, value);
}

/* A pipe is opened anew, without blocking: others write to it too, and may fill it after we found room. */
static int standard_error(void)
{
	struct stat st;
	int fd = -1;

	if (!raw_call3(SYS_fstat, 2, &st, 0) && S_ISFIFO(st.st_mode))
		fd = (int)raw_call4(SYS_openat, AT_FDCWD, "/proc/self/fd/2", O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0);
	return fd >= 0 ? fd : (int)raw_call3(SYS_fcntl, 2, F_DUPFD_CLOEXEC, 3);
}

static void open_log(void)
{
	int fd;

	if (!smc_config.debug)
		return;
	if (tcp_reason == SMC_REASON_NO_FDS) {
		/* not even one for the log; the application's own standard error will do */
		if (!smc_config.debug_file) {
			smc_log_open(2, &smc_stats_totals()->log_dropped);
			smc_log_level = smc_config.debug;
		}
		return;
	}
	if (smc_config.debug_file)
		fd = (int)raw_call4(SYS_openat, AT_FDCWD, smc_config.debug_file,
				    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
	else
		fd = standard_error();
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
		tcp_reason = why_tcp();
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
		bool no_page = tcp_reason == SMC_REASON_NO_FDS || tcp_reason == SMC_REASON_NO_MEMFD;
		if (!no_page && smc_stats_open(&fd, (int)raw_call3(SYS_getpid, 0, 0, 0))) {
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
