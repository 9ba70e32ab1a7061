/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/call.h"
#include "preload/process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Calls between a connection and something else: files, pipes, stdio. */

/* ---- sendfile: the file's bytes are copied into the channel ---- */

enum { SENDFILE_PIECE = 64 * 1024, SENDFILE_MAX = 0x7ffff000 };

/* Sends [offset, offset + n) of the file; how much was sent, or -errno if nothing was. */
static ssize_t send_file(struct conn *c, int in, off64_t offset, size_t n)
{
	char piece[SENDFILE_PIECE];
	ssize_t total = 0;

	while (n) {
		ssize_t got = (ssize_t)raw_call4(SYS_pread64, in, piece, n < sizeof(piece) ? n : sizeof(piece), offset + total);
		if (got <= 0)
			return total ? total : got == -ESPIPE ? -EINVAL : got;
		struct iovec iov = { piece, (size_t)got };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t sent = smc_stream_send(&c->stream, &msg, 0);
		if (sent < 0)
			return total ? total : sent;
		total += sent;
		n -= (size_t)sent;
		if (sent < got)
			break;
	}
	return total;
}

static ssize_t sendfile_fast(struct conn *c, int in, off64_t *offset, size_t n)
{
	off64_t at = offset ? *offset : raw_call3(SYS_lseek, in, 0, SEEK_CUR);

	if (at < 0)
		return raw_result(offset || at == -ESPIPE ? -EINVAL : at);
	ssize_t r = send_file(c, in, at, n < SENDFILE_MAX ? n : SENDFILE_MAX);
	if (r > 0 && offset)
		*offset = at + r;
	else if (r > 0)
		raw_call3(SYS_lseek, in, at + r, SEEK_SET);
	return raw_result(r);
}

/* From a connection the kernel cannot sendfile anyway (EINVAL), but it must not find bytes to try with. */
SMC_EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t n)
{
	struct conn *c = conn_get(out);
	ssize_t r;

	if (!c)
		return real.sendfile64(out, in, offset, n);
	if (call_enter_tx(c)) {
		r = real.sendfile64(out, in, offset, n);
		call_leave_tx(c, r);
	} else {
		r = sendfile_fast(c, in, offset, n);
	}
	conn_put(c);
	return r;
}

SMC_EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t n)
{
	_Static_assert(sizeof(off_t) == sizeof(off64_t), "64-bit systems only");
	return sendfile64(out, in, offset, n);
}

/* ---- calls that move bytes inside the kernel: TCP must hold them ---- */

static void kernel_moves(int fd)
{
	struct conn *c = conn_get(fd);

	if (!c)
		return;
	conn_keep_tcp(c, SMC_REASON_KERNEL_CALL);
	conn_put(c);
}

SMC_EXPORT ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t n, unsigned int flags)
{
	kernel_moves(in);
	kernel_moves(out);
	return real.splice(in, in_offset, out, out_offset, n, flags);
}

SMC_EXPORT ssize_t tee(int in, int out, size_t n, unsigned int flags)
{
	return real.tee(in, out, n, flags);
}

SMC_EXPORT ssize_t vmsplice(int fd, const struct iovec *iov, size_t n, unsigned int flags)
{
	return real.vmsplice(fd, iov, n, flags);
}

/* ---- stdio: its reads and writes do not pass through us ---- */

static void stdio_takes(int fd)
{
	struct conn *c = conn_get(fd);

	if (!c)
		return;
	conn_keep_tcp(c, SMC_REASON_STDIO);
	conn_put(c);
}

SMC_EXPORT FILE *fdopen(int fd, const char *mode)
{
	stdio_takes(fd);
	return real.fdopen(fd, mode);
}

SMC_EXPORT int vdprintf(int fd, const char *format, va_list args)
{
	stdio_takes(fd);
	return real.vdprintf(fd, format, args);
}

SMC_EXPORT int dprintf(int fd, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int r = vdprintf(fd, format, args);
	va_end(args);
	return r;
}

SMC_EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list args)
{
	stdio_takes(fd);
	return real.__vdprintf_chk(fd, flag, format, args);
}

SMC_EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int r = __vdprintf_chk(fd, flag, format, args);
	va_end(args);
	return r;
}

/* fclose closes the descriptor without passing through close. */
SMC_EXPORT int fclose(FILE *file)
{
	int fd = file ? fileno(file) : -1;
	struct conn *c = NULL;
	int r;

	if (fd >= 0 && fdtable_get(fd) && process_is_own() && (c = conn_get(fd))) {
		if (fdtable_set(fd, NULL, NULL) == &c->object) {
			conn_closing(c, fd);
			conn_put(c); /* the table's */
		}
	}
	r = real.fclose(file);
	if (c) {
		int saved = errno;
		conn_put(c);
		errno = saved;
	}
	return r;
}
