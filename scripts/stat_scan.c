/* SPDX-License-Identifier: BSD-2-Clause */
#include "scripts/stat_scan.h"

#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/stats.h"
#include "scripts/stat_page.h"

/*
 * A page may be held by several processes, for a fork inherits it: first all holders are noted, one
 * entry per descriptor, then each page is read once. Which of its holders it belongs to, the page
 * says itself; that is believed only of a process that does hold it (it may be dead, a liar, or
 * speak of another pid namespace), else it is the holder with the lowest pid.
 */
struct holding {
	dev_t dev;
	ino_t ino;
	pid_t pid;
	int fd;
};

struct holdings {
	struct holding *list;
	size_t n, room;
};

static void holdings_add(struct holdings *h, struct holding holding)
{
	if (h->n == h->room) {
		h->room = h->room ? 2 * h->room : 64;
		h->list = reallocarray(h->list, h->room, sizeof(*h->list));
		if (!h->list)
			err(1, "memory");
	}
	h->list[h->n++] = holding;
}

static int by_page_and_pid(const void *left, const void *right)
{
	const struct holding *a = left, *b = right;

	if (a->dev != b->dev)
		return a->dev < b->dev ? -1 : 1;
	if (a->ino != b->ino)
		return a->ino < b->ino ? -1 : 1;
	return (a->pid > b->pid) - (a->pid < b->pid);
}

static bool same_page(const struct holding *a, const struct holding *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

/* The value of a name that is a number, -1 of any other. */
static int number(const char *name)
{
	char *end;
	long n;

	if (!isdigit((unsigned char)*name))
		return -1;
	errno = 0;
	n = strtol(name, &end, 10);
	return *end || errno || n > INT32_MAX ? -1 : (int)n;
}

/* Notes the pages that `pid` holds. Returns 0 or a negative errno. */
static int scan_process(struct holdings *h, pid_t pid)
{
	static const char wanted[] = "/memfd:" SMC_STATS_NAME " (deleted)";
	char path[64], target[sizeof(wanted) + 1];
	struct dirent *entry;
	struct stat st;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));

		if (n != sizeof(wanted) - 1 || memcmp(target, wanted, (size_t)n) != 0)
			continue;
		if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
			holdings_add(h, (struct holding){ st.st_dev, st.st_ino, pid,
							  number(entry->d_name) });
	}
	closedir(dir);
	return 0;
}

static int may_look_at(pid_t pid)
{
	struct holdings h = { 0 };
	int error = scan_process(&h, pid);

	free(h.list);
	return error;
}

static int scan_all(struct holdings *h)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	if (!proc)
		return -errno;
	while ((entry = readdir(proc))) {
		int pid = number(entry->d_name);

		if (pid > 0)
			scan_process(h, pid);
	}
	closedir(proc);
	return 0;
}

/* The name of a process, with nothing in it that a terminal or JSON would take amiss. */
static void read_comm(char comm[STAT_COMM_LEN], pid_t pid)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, comm, STAT_COMM_LEN - 1);
		close(fd);
	}
	if (n <= 0)
		n = snprintf(comm, STAT_COMM_LEN, "?");
	comm[n] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
	for (char *p = comm; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}

static bool holds(const struct holding *group, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (group[i].pid == pid)
			return true;
	return false;
}

/* Opens the page through any of its holders, for each may end at any moment. */
static int open_page(const struct holding *group, size_t n)
{
	char path[64];
	struct stat st;

	for (size_t i = 0; i < n; i++) {
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)group[i].pid, group[i].fd);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd < 0)
			continue;
		/* the number may stand for something else by now */
		if (fstat(fd, &st) == 0 && st.st_dev == group->dev && st.st_ino == group->ino)
			return fd;
		close(fd);
	}
	return -1;
}

static void add_connections(struct stat_model *model, const struct stat_page *page,
			    const struct holding *group, size_t n, struct stat_process *process)
{
	struct stat_connection found, *c;

	for (uint32_t i = 0; i < page->slots; i++) {
		if (!stat_page_read(page, i, &found))
			continue;
		c = stat_model_add_connection(model);
		*c = found;
		if (!holds(group, n, c->pid))
			c->pid = process->pid;
		if (c->pid == process->pid)
			memcpy(c->comm, process->comm, sizeof(c->comm));
		else
			read_comm(c->comm, c->pid);
		stat_bytes_add(&process->totals.bytes, &c->bytes);
		process->totals.open++;
		process->totals.open_fast += stat_connection_carrier(c) != SMC_CARRIER_TCP;
	}
}

static void read_group(struct stat_model *model, const struct holding *group, size_t n)
{
	struct stat_process *process;
	struct stat_page page;
	const char *wrong;
	int fd = open_page(group, n);

	if (fd < 0)
		return;
	wrong = stat_page_open(&page, fd);
	if (wrong) {
		warnx("statistics of process %d: %s", (int)group->pid, wrong);
		return;
	}
	process = stat_model_add_process(model);
	process->pid = holds(group, n, page.pid) ? page.pid : group->pid;
	process->totals = page.totals;
	read_comm(process->comm, process->pid);
	add_connections(model, &page, group, n, process);
	stat_page_close(&page);
}

int stat_scan(struct stat_model *model, pid_t only_pid)
{
	struct holdings h = { 0 };
	int error = only_pid ? may_look_at(only_pid) : 0;

	/* Even for one process all are asked, for who holds its page decides what in it is its own.
	 */
	if (!error)
		error = scan_all(&h);
	if (h.n)
		qsort(h.list, h.n, sizeof(*h.list), by_page_and_pid);
	for (size_t i = 0, n; i < h.n; i += n) {
		for (n = 1; i + n < h.n && same_page(&h.list[i], &h.list[i + n]);)
			n++;
		read_group(model, &h.list[i], n);
	}
	free(h.list);
	stat_model_finish(model, only_pid);
	return error;
}
