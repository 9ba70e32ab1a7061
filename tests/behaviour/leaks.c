/* SPDX-License-Identifier: BSD-2-Clause */

/* Pitfalls 28, 55, 66 and 120: very many connections leave nothing behind. */

#include <dirent.h>
#include <sys/mman.h>

#include "harness.h"

struct held {
	int fds, maps;
	long private_kib;
};

static int entries(const char *path)
{
	int n = 0;
	DIR *dir = opendir(path);
	MUST(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static struct held held_now(void)
{
	struct held h = { .fds = entries("/proc/self/fd") };
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	MUST(f);
	while (fgets(line, sizeof(line), f))
		h.maps++;
	fclose(f);
	f = fopen("/proc/self/status", "re");
	MUST(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "RssAnon:", 8))
			h.private_kib = atol(line + 8);
	fclose(f);
	return h;
}

/* Some were accelerated, some moved a little, most nothing at all. */
static void connections(int listener, uint16_t port, int count, int one_fast_in)
{
	for (int i = 0; i < count; i++) {
		int fd = connect_to(AF_INET, port), peer = accept(listener, NULL, NULL);
		MUST(peer >= 0);
		if (i % one_fast_in == 0)
			warm_up_both(fd, peer);
		else if (i % 4 == 0)
			MUST(send(fd, "x", 1, 0) == 1 && recv(peer, (char[1]){ 0 }, 1, 0) == 1);
		if (i % 8)
			linger_reset(
				fd); /* no TIME_WAIT: the numbers of this host are not used up */
		close(i % 2 ? fd : peer);
		close(i % 2 ? peer : fd);
	}
}

SOLO(leaks_many_connections, SOME_TCP)
{
	enum { MANY = 20000, FEW = 2000, ONE_FAST_IN = 100 };
	uint16_t port;
	int listener = listen_on(AF_INET, false, &port);
	connections(listener, port, FEW, FEW / 20);
	nap(100);
	struct held before = held_now();
	connections(listener, port, MANY, ONE_FAST_IN);
	nap(100);
	struct held after = held_now();
	say("more descriptors %d", after.fds > before.fds + 1);
	say("more mappings %d", after.maps > before.maps + 8);
	say("more memory %d", after.private_kib > before.private_kib + 512);
	say("next number %d", dup(0));
	connections(listener, port, 1, 1);
	say("goes on");
}
