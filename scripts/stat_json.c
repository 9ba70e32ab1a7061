/* SPDX-License-Identifier: BSD-2-Clause */
#include "scripts/stat_print.h"

#include <err.h>
#include <json-c/json.h>

#include "core/reason.h"

static struct json_object *check(struct json_object *object)
{
	if (!object)
		errx(1, "memory");
	return object;
}

static void add(struct json_object *to, const char *name, struct json_object *value)
{
	if (json_object_object_add(to, name, check(value)))
		errx(1, "memory");
}

static void add_number(struct json_object *to, const char *name, uint64_t value)
{
	add(to, name, json_object_new_uint64(value));
}

static void add_string(struct json_object *to, const char *name, const char *value)
{
	add(to, name, json_object_new_string(value));
}

static struct json_object *tx_rx(uint64_t tx, uint64_t rx)
{
	struct json_object *pair = check(json_object_new_object());

	add_number(pair, "tx", tx);
	add_number(pair, "rx", rx);
	return pair;
}

static struct json_object *bytes_json(const struct stat_bytes *bytes)
{
	static const enum smc_carrier order[] = { SMC_CARRIER_SHM, SMC_CARRIER_RDMA,
						  SMC_CARRIER_TCP };
	struct json_object *object = check(json_object_new_object());

	for (size_t i = 0; i < SMC_CARRIERS; i++)
		add(object, stat_carrier_name(order[i]),
		    tx_rx(bytes->tx[order[i]], bytes->rx[order[i]]));
	return object;
}

static struct json_object *connection_json(const struct stat_connection *c)
{
	struct json_object *object = check(json_object_new_object());

	add(object, "pid", json_object_new_int(c->pid));
	add_string(object, "comm", c->comm);
	add(object, "fd", json_object_new_int(c->fd));
	add_string(object, "role", stat_role_name(c->role));
	add_string(object, "local", c->local);
	add_string(object, "remote", c->remote);
	add_string(object, "carrier", stat_carrier_name(stat_connection_carrier(c)));
	add_string(object, "tx_carrier", stat_carrier_name(c->tx_carrier));
	add_string(object, "rx_carrier", stat_carrier_name(c->rx_carrier));
	add_number(object, "reason", c->reason);
	add_string(object, "reason_text", smc_reason_text(c->reason));
	add(object, "bytes", bytes_json(&c->bytes));
	add(object, "ring", tx_rx(c->ring_tx, c->ring_rx));
	add_number(object, "ups", c->ups);
	add_number(object, "downs", c->downs);
	return object;
}

static struct json_object *totals_json(const struct stat_totals *totals)
{
	struct json_object *object = check(json_object_new_object());

	add(object, "bytes", bytes_json(&totals->bytes));
	add_number(object, "open", totals->open);
	add_number(object, "open_fast", totals->open_fast);
#define X(name) add_number(object, #name, totals->name);
	STAT_COUNTERS(X)
#undef X
	return object;
}

static struct json_object *process_json(const struct stat_process *p)
{
	struct json_object *object = check(json_object_new_object());

	add(object, "pid", json_object_new_int(p->pid));
	add_string(object, "comm", p->comm);
	add(object, "totals", totals_json(&p->totals));
	return object;
}

static void append(struct json_object *array, struct json_object *element)
{
	if (json_object_array_add(array, element))
		errx(1, "memory");
}

void stat_print_json(const struct stat_model *model, FILE *to)
{
	struct json_object *all = check(json_object_new_object());
	struct json_object *connections = check(json_object_new_array());
	struct json_object *processes = check(json_object_new_array());

	for (size_t i = 0; i < model->n_connections; i++)
		append(connections, connection_json(&model->connections[i]));
	for (size_t i = 0; i < model->n_processes; i++)
		append(processes, process_json(&model->processes[i]));
	add(all, "connections", connections);
	add(all, "processes", processes);
	add(all, "totals", totals_json(&model->totals));
	fprintf(to, "%s\n",
		json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(all);
}
