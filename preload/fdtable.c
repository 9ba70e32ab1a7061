/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/fdtable.h"
#include "core/lock.h"
#include "core/sys.h"
#include "preload/raw.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

_Atomic(struct fd_object *) *fdtable_chunks[FDTABLE_MAX / FDTABLE_CHUNK];

static struct smc_lock growing;
static struct fd_object internal_object = { FD_INTERNAL };

static _Atomic(struct fd_object *) *make_chunk(unsigned i)
{
	smc_lock(&growing);
	_Atomic(struct fd_object *) *chunk = fdtable_chunks[i];
	if (!chunk) {
		chunk = mmap(NULL, FDTABLE_CHUNK * sizeof(*chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (chunk == MAP_FAILED)
			chunk = NULL;
		else
			__atomic_store_n(&fdtable_chunks[i], chunk, __ATOMIC_RELEASE);
	}
	smc_unlock(&growing);
	return chunk;
}

struct fd_object *fdtable_set(int fd, struct fd_object *object, bool *failed)
{
	if (failed)
		*failed = false;
	if ((unsigned)fd < FDTABLE_MAX) {
		unsigned i = (unsigned)fd / FDTABLE_CHUNK;
		_Atomic(struct fd_object *) *chunk = __atomic_load_n(&fdtable_chunks[i], __ATOMIC_ACQUIRE);
		if (!chunk && !object)
			return NULL;
		if (chunk || (chunk = make_chunk(i)))
			return atomic_exchange(&chunk[(unsigned)fd % FDTABLE_CHUNK], object);
	}
	if (failed)
		*failed = object != NULL;
	return NULL;
}

void fdtable_each(enum fd_type type, void (*visit)(void *context, int fd, struct fd_object *object), void *context)
{
	for (int i = 0; i < FDTABLE_MAX / FDTABLE_CHUNK; i++) {
		if (!__atomic_load_n(&fdtable_chunks[i], __ATOMIC_ACQUIRE))
			continue;
		for (int fd = i * FDTABLE_CHUNK; fd < (i + 1) * FDTABLE_CHUNK; fd++) {
			struct fd_object *o = fdtable_get(fd);
			if (o && o->type == type)
				visit(context, fd, o);
		}
	}
}

/* High enough to be out of the application's way (its numbers grow from 0); low enough not to make the kernel's
 * table of this process big, which a fork copies, and not beyond what an fd_set holds: select is called with
 * getdtablesize(). */
static int internal_base(void)
{
	struct rlimit limit;

	if (raw_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) < 0)
		return 3;
	if (limit.rlim_cur >= 1024)
		return 896;
	return (int)(limit.rlim_cur - limit.rlim_cur / 4);
}

int fdtable_make_internal(int fd)
{
	long moved = raw_call3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, internal_base());
	bool failed = false;

	smc_sys.close(fd);
	if (moved < 0)
		return (int)moved;
	fdtable_set((int)moved, &internal_object, &failed);
	if (failed) {
		smc_sys.close((int)moved);
		return -EMFILE;
	}
	return (int)moved;
}

void fdtable_close_internal(int fd)
{
	if (fd < 0)
		return;
	fdtable_set(fd, NULL, NULL);
	smc_sys.close(fd);
}

bool fdtable_is_internal(int fd)
{
	struct fd_object *o = fdtable_get(fd);

	return o && o->type == FD_INTERNAL;
}
