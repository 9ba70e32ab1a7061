/* SPDX-License-Identifier: BSD-2-Clause */

/* smc_stat(1): which connections of which processes are accelerated, and if not, why not. */

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scripts/stat_model.h"
#include "scripts/stat_print.h"
#include "scripts/stat_scan.h"

struct options {
	bool json;
	pid_t pid;
};

static const char usage[] =
	"Usage: smc_stat [--json] [-p PID]\n"
	"       smc_stat -h | -v\n"
	"\n"
	"Shows the TCP connections of programs that run with libsmc_preload: what carries\n"
	"them, why it is not shared memory if it is not, and how many bytes there were.\n"
	"\n"
	"  -j, --json      print JSON\n"
	"  -p, --pid PID   this process only\n"
	"  -h, --help      this help\n"
	"  -v, --version   version\n";

static pid_t parse_pid(const char *text)
{
	char *end;
	long pid;

	errno = 0;
	pid = strtol(text, &end, 10);
	if (end == text || *end || errno || pid <= 0 || pid > INT32_MAX)
		errx(2, "%s: not a process id", text);
	return (pid_t)pid;
}

static struct options parse_options(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "pid", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	struct options options = { 0 };
	int option;

	while ((option = getopt_long(argc, argv, "jp:hv", longs, NULL)) != -1) {
		switch (option) {
		case 'j':
			options.json = true;
			break;
		case 'p':
			options.pid = parse_pid(optarg);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		case 'v':
			puts("smc_stat " SMC_VERSION);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind < argc)
		errx(2, "%s: no argument expected", argv[optind]);
	return options;
}

/* Says on standard error why the process asked for is not shown; false if all is well. */
static bool complain(const struct options *options, const struct stat_model *model, int error)
{
	if (error)
		warnx("process %d: %s", (int)options->pid,
		      error == -ENOENT ? "no such process" : strerror(-error));
	else if (options->pid && !model->n_processes && !model->n_connections)
		warnx("process %d does not run with the library", (int)options->pid);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv);
	struct stat_model model = { 0 };
	int error = stat_scan(&model, options.pid);
	bool bad = complain(&options, &model, error);

	if (options.json)
		stat_print_json(&model, stdout);
	else if (!bad)
		stat_print_table(&model, stdout);
	stat_model_deinit(&model);
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return bad;
}
