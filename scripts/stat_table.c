/* SPDX-License-Identifier: BSD-2-Clause */
#include "scripts/stat_print.h"

#include <err.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/reason.h"

/*
 * A table whose columns are as wide as their widest cell. A column's title says how it is set:
 * numbers (those whose title starts with '>') to the right, text to the left.
 */
struct table {
	const char *const *titles;
	size_t columns, cells, room;
	char **cell;
};

static void table_add(struct table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void table_add(struct table *table, const char *format, ...)
{
	va_list args;

	if (table->cells == table->room) {
		table->room = table->room ? 2 * table->room : 256;
		table->cell = reallocarray(table->cell, table->room, sizeof(*table->cell));
		if (!table->cell)
			err(1, "memory");
	}
	va_start(args, format);
	if (vasprintf(&table->cell[table->cells++], format, args) < 0)
		err(1, "memory");
	va_end(args);
}

static bool is_number(const char *title)
{
	return *title == '>';
}

static int column_width(const struct table *table, size_t column)
{
	const char *title = table->titles[column];
	size_t width = strlen(title) - is_number(title);

	for (size_t i = column; i < table->cells; i += table->columns) {
		size_t n = strlen(table->cell[i]);

		width = n > width ? n : width;
	}
	return (int)width;
}

/* Prints one cell, and what separates it from the next; the last column is not padded. */
static void print_cell(FILE *to, const struct table *table, size_t column, int width,
		       const char *text)
{
	bool last = column + 1 == table->columns;

	if (is_number(table->titles[column]))
		fprintf(to, "%*s", width, text);
	else
		fprintf(to, "%-*s", last ? 0 : width, text);
	fputs(last ? "\n" : "  ", to);
}

static void table_print(struct table *table, FILE *to)
{
	int *widths = reallocarray(NULL, table->columns, sizeof(*widths));

	if (!widths)
		err(1, "memory");
	for (size_t i = 0; i < table->columns; i++)
		widths[i] = column_width(table, i);
	for (size_t i = 0; i < table->columns; i++)
		print_cell(to, table, i, widths[i], table->titles[i] + is_number(table->titles[i]));
	for (size_t i = 0; i < table->cells; i++) {
		size_t column = i % table->columns;

		print_cell(to, table, column, widths[column], table->cell[i]);
		free(table->cell[i]);
	}
	free(table->cell);
	free(widths);
}

/* RDMA's columns are only shown where there is something in them. */
static bool has_rdma(const struct stat_model *model)
{
	const struct stat_bytes *sum = &model->totals.bytes;

	return sum->tx[SMC_CARRIER_RDMA] || sum->rx[SMC_CARRIER_RDMA];
}

static void add_bytes(struct table *table, const struct stat_bytes *bytes, bool rdma)
{
	table_add(table, "%" PRIu64, bytes->tx[SMC_CARRIER_SHM]);
	table_add(table, "%" PRIu64, bytes->rx[SMC_CARRIER_SHM]);
	if (rdma) {
		table_add(table, "%" PRIu64, bytes->tx[SMC_CARRIER_RDMA]);
		table_add(table, "%" PRIu64, bytes->rx[SMC_CARRIER_RDMA]);
	}
	table_add(table, "%" PRIu64, bytes->tx[SMC_CARRIER_TCP]);
	table_add(table, "%" PRIu64, bytes->rx[SMC_CARRIER_TCP]);
}

#define BYTE_TITLES_SHM	 ">SHM-TX", ">SHM-RX"
#define BYTE_TITLES_RDMA ">RDMA-TX", ">RDMA-RX"
#define BYTE_TITLES_TCP	 ">TCP-TX", ">TCP-RX"

static void print_connections(const struct stat_model *model, FILE *to)
{
#define BEFORE ">PID", "COMMAND", ">FD", "LOCAL", "REMOTE", "ROLE", "CARRIER"
	static const char *const without[] = { BEFORE, BYTE_TITLES_SHM, BYTE_TITLES_TCP, "REASON" };
	static const char *const with[] = { BEFORE, BYTE_TITLES_SHM, BYTE_TITLES_RDMA,
					    BYTE_TITLES_TCP, "REASON" };
#undef BEFORE
	bool rdma = has_rdma(model);
	struct table table = {
		.titles = rdma ? with : without,
		.columns = rdma ? sizeof(with) / sizeof(*with) : sizeof(without) / sizeof(*without),
	};

	for (size_t i = 0; i < model->n_connections; i++) {
		const struct stat_connection *c = &model->connections[i];

		table_add(&table, "%d", (int)c->pid);
		table_add(&table, "%s", c->comm);
		table_add(&table, "%d", c->fd);
		table_add(&table, "%s", c->local);
		table_add(&table, "%s", c->remote);
		table_add(&table, "%s", stat_role_name(c->role));
		table_add(&table, "%s", stat_carrier_name(stat_connection_carrier(c)));
		add_bytes(&table, &c->bytes, rdma);
		table_add(&table, "%u %s", c->reason, smc_reason_text(c->reason));
	}
	table_print(&table, to);
}

static void add_totals(struct table *table, const struct stat_totals *totals, bool rdma)
{
	table_add(table, "%" PRIu64, totals->open);
	table_add(table, "%" PRIu64, totals->closed);
	table_add(table, "%" PRIu64, totals->closed_fast);
	add_bytes(table, &totals->bytes, rdma);
	table_add(table, "%" PRIu64, totals->doorbells);
	table_add(table, "%" PRIu64, totals->sleeps);
	table_add(table, "%" PRIu64, totals->spins_won);
	table_add(table, "%" PRIu64, totals->refused);
}

static void print_processes(const struct stat_model *model, FILE *to)
{
#define BEFORE ">PID", "COMMAND", ">OPEN", ">CLOSED", ">BY-SMC"
#define BEHIND ">DOORBELLS", ">SLEEPS", ">SPINS-WON", ">REFUSED"
	static const char *const without[] = { BEFORE, BYTE_TITLES_SHM, BYTE_TITLES_TCP, BEHIND };
	static const char *const with[] = { BEFORE, BYTE_TITLES_SHM, BYTE_TITLES_RDMA,
					    BYTE_TITLES_TCP, BEHIND };
#undef BEFORE
#undef BEHIND
	bool rdma = has_rdma(model);
	struct table table = {
		.titles = rdma ? with : without,
		.columns = rdma ? sizeof(with) / sizeof(*with) : sizeof(without) / sizeof(*without),
	};

	for (size_t i = 0; i < model->n_processes; i++) {
		const struct stat_process *p = &model->processes[i];

		table_add(&table, "%d", (int)p->pid);
		table_add(&table, "%s", p->comm);
		add_totals(&table, &p->totals, rdma);
	}
	table_add(&table, "all");
	table_add(&table, "-");
	add_totals(&table, &model->totals, rdma);
	table_print(&table, to);
}

void stat_print_table(const struct stat_model *model, FILE *to)
{
	if (!model->n_processes && !model->n_connections) {
		fprintf(to, "no process with the library, among those that you may look at\n");
		return;
	}
	print_connections(model, to);
	fputc('\n', to);
	print_processes(model, to);
}
