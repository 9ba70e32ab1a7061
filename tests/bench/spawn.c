/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * spawn COUNT [NAME=VALUE] COMMAND [ARGUMENT...]: starts the command that often, with one variable
 * more in its environment, and waits for it each time. Prints the median in microseconds.
 */

#include "bench.h"

#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char **environment_with(char *variable)
{
	size_t n = 0;
	char **copy;

	while (environ[n])
		n++;
	copy = calloc(n + 2, sizeof(*copy));
	if (!copy)
		err(1, "memory");
	memcpy(copy, environ, n * sizeof(*copy));
	copy[n] = variable;
	return copy;
}

static uint64_t start_and_wait(char **argv, char **env)
{
	uint64_t start = bench_now_ns();
	int status, error;
	pid_t pid;

	error = posix_spawnp(&pid, argv[0], NULL, NULL, argv, env);
	if (error)
		errx(1, "%s: %s", argv[0], strerror(error));
	if (waitpid(pid, &status, 0) != pid || status)
		errx(1, "%s failed", argv[0]);
	return bench_now_ns() - start;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	long count = bench_number(argc, argv, 1, 0);
	char *variable = argc > 2 && strchr(argv[2], '=') ? argv[2] : NULL;
	char **command = argv + (variable ? 3 : 2);
	uint64_t *times = calloc((size_t)count + 1, sizeof(*times));
	char **env = environment_with(variable);

	if (count <= 0 || argc < 3 || !*command)
		errx(2, "usage: spawn COUNT [NAME=VALUE] COMMAND [ARGUMENT...]");
	if (!times)
		err(1, "memory");
	for (long i = 0; i < count; i++)
		times[i] = start_and_wait(command, env);
	qsort(times, (size_t)count, sizeof(*times), compare);
	printf("%.1f\n", (double)times[count / 2] / 1000);
	free(times);
	free(env);
	return 0;
}
