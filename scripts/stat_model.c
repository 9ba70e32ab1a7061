/* SPDX-License-Identifier: BSD-2-Clause */
#include "scripts/stat_model.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

void stat_model_deinit(struct stat_model *model)
{
	free(model->connections);
	free(model->processes);
	*model = (struct stat_model){ 0 };
}

/* Room doubles whenever the count is a power of two, so no capacity needs to be kept. */
static void *grow(void *array, size_t n, size_t size)
{
	if (n & (n - 1))
		return array;
	array = reallocarray(array, n ? 2 * n : 1, size);
	if (!array)
		err(1, "memory");
	return array;
}

struct stat_connection *stat_model_add_connection(struct stat_model *model)
{
	struct stat_connection *c;

	model->connections = grow(model->connections, model->n_connections, sizeof(*c));
	c = &model->connections[model->n_connections++];
	memset(c, 0, sizeof(*c));
	return c;
}

struct stat_process *stat_model_add_process(struct stat_model *model)
{
	struct stat_process *p;

	model->processes = grow(model->processes, model->n_processes, sizeof(*p));
	p = &model->processes[model->n_processes++];
	memset(p, 0, sizeof(*p));
	return p;
}

void stat_bytes_add(struct stat_bytes *sum, const struct stat_bytes *more)
{
	for (int i = 0; i < SMC_CARRIERS; i++) {
		sum->tx[i] += more->tx[i];
		sum->rx[i] += more->rx[i];
	}
}

static void totals_add(struct stat_totals *sum, const struct stat_totals *more)
{
	stat_bytes_add(&sum->bytes, &more->bytes);
	sum->open += more->open;
	sum->open_fast += more->open_fast;
#define X(name) sum->name += more->name;
	STAT_COUNTERS(X)
#undef X
}

static int compare(long a, long b)
{
	return (a > b) - (a < b);
}

static int by_pid_and_fd(const void *left, const void *right)
{
	const struct stat_connection *a = left, *b = right;
	int order = compare(a->pid, b->pid);

	return order ? order : compare(a->fd, b->fd);
}

static int by_pid(const void *left, const void *right)
{
	const struct stat_process *a = left, *b = right;

	return compare(a->pid, b->pid);
}

static void keep_only(struct stat_model *model, pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < model->n_connections; i++)
		if (model->connections[i].pid == pid)
			model->connections[kept++] = model->connections[i];
	model->n_connections = kept;
	kept = 0;
	for (size_t i = 0; i < model->n_processes; i++)
		if (model->processes[i].pid == pid)
			model->processes[kept++] = model->processes[i];
	model->n_processes = kept;
}

void stat_model_finish(struct stat_model *model, pid_t only_pid)
{
	if (only_pid)
		keep_only(model, only_pid);
	if (model->n_connections)
		qsort(model->connections, model->n_connections, sizeof(*model->connections),
		      by_pid_and_fd);
	if (model->n_processes)
		qsort(model->processes, model->n_processes, sizeof(*model->processes), by_pid);
	for (size_t i = 0; i < model->n_processes; i++)
		totals_add(&model->totals, &model->processes[i].totals);
}

enum smc_carrier stat_connection_carrier(const struct stat_connection *connection)
{
	if (connection->tx_carrier == connection->rx_carrier)
		return connection->tx_carrier;
	return SMC_CARRIER_TCP;
}

const char *stat_carrier_name(enum smc_carrier carrier)
{
	static const char *const names[SMC_CARRIERS] = {
		[SMC_CARRIER_TCP] = "tcp",
		[SMC_CARRIER_SHM] = "shm",
		[SMC_CARRIER_RDMA] = "rdma",
	};

	return names[carrier];
}

const char *stat_role_name(enum smc_role role)
{
	return role == SMC_ROLE_ACCEPTOR ? "acceptor" : "connector";
}
