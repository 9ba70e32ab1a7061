# SPDX-License-Identifier: BSD-2-Clause
"""Starts the programs that are measured, plain or under smc_run, and gets a figure out of each.

Everything runs on the loopback interface, on ports that were free, in process groups of its own; leaving a
`Session` ends what was started in it, and nothing else.
"""

import collections
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SMC_RUN = TOP / 'scripts/smc_run'
LOOPBACK = '127.0.0.1'
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """A program did not do what it should; the argument says which and how."""


class Missing(Failed):
    """A program is not installed."""


def raise_exit(*_):
    raise SystemExit(1)


def exit_on_signals():
    """Lets a signal run the cleanup of the sessions that are open."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, raise_exit)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    with contextlib.ExitStack() as stack:
        for each in sockets:
            stack.enter_context(each)
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]


def is_listening(port):
    """Without connecting, for that would disturb servers that take each connection for work."""
    for table in ('/proc/net/tcp', '/proc/net/tcp6'):
        with contextlib.suppress(OSError), open(table, encoding='ascii') as lines:
            for line in lines:
                fields = line.split()
                if fields[3] == '0A' and int(fields[1].rpartition(':')[2], 16) == port:
                    return True
    return False


def need(program):
    path = shutil.which(program, path=f'{os.environ["PATH"]}:/usr/sbin:/sbin')
    if not path:
        raise Missing(f'{program} is not installed (scripts/deps installs it)')
    return path


class Session:
    """Owns processes and a temporary folder, for one measurement in one mode ("plain" or "fast")."""

    def __init__(self, build, mode):
        self.build = pathlib.Path(build)
        self.mode = mode
        self.started = []
        self.dir = None

    def __enter__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix='smc-run-'))
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            self.end(process)
        shutil.rmtree(self.dir, ignore_errors=True)

    def prefix(self):
        return [str(SMC_RUN)] if self.mode == 'fast' else []

    def environment(self):
        env = {k: v for k, v in os.environ.items() if k != 'LD_PRELOAD'}
        env['SMC_PRELOAD_LIB'] = str(self.build / 'preload/libsmc_preload.so')
        return env

    def start(self, *command, **kwargs):
        """Starts a program in a process group of its own, which dies with us whatever happens."""
        words = self.prefix() + [str(word) for word in command]
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            words, env=self.environment(), cwd=self.dir, start_new_session=True,
            preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            text=True, **{'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE,
                          'stderr': subprocess.PIPE, **kwargs})
        self.started.append(process)
        return process

    def serve(self, port, *command, pin=None):
        """Starts a server whose output nobody reads, and waits until it listens."""
        log = open(self.dir / f'server-{port}.log', 'w+', encoding='utf-8', errors='replace')
        process = self.start(*pinned(pin), *command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 10
        while not is_listening(port):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise Failed(f'{command[0]} does not listen: {log.read().strip()[-500:]}')
            time.sleep(0.01)
        log.close()
        return process

    def run(self, *command, pin=None, timeout=60):
        """Runs a program to its end and returns its standard output."""
        process = self.start(*pinned(pin), *command)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise Failed(f'{command[0]} did not end within {timeout} s') from error
        finally:
            self.end(process)
        if process.returncode:
            raise Failed(f'{command[0]} failed ({process.returncode}): {(err or out).strip()[-500:]}')
        return out

    def end(self, process):
        """Ends the process group of one process: politely, then not."""
        for number, patience in ((signal.SIGTERM, 2), (signal.SIGKILL, 2)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
                break
        # the leader may have ended and left others
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()
        if process in self.started:
            self.started.remove(process)

    def owns(self, pid):
        with contextlib.suppress(ProcessLookupError):
            return os.getpgid(pid) in {process.pid for process in self.started}
        return False

    def smc_stat(self):
        """What smc_stat shows of the processes that were started here."""
        program = self.build / 'scripts/smc_stat'
        if not program.exists():
            return []
        result = subprocess.run([program, '--json'], capture_output=True, text=True, check=False)
        try:
            seen = json.loads(result.stdout)['connections']
        except (ValueError, KeyError):
            return []
        return [connection for connection in seen if self.owns(connection['pid'])]


def pinned(cpu):
    return [] if cpu is None else [need('taskset'), '-c', str(cpu)]


class Watch:
    """Asks smc_stat again and again while in a `with`; keeps the look that saw most bytes."""

    def __init__(self, session, period=0.4):
        self.session = session
        self.period = period
        self.best = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        if self.session.mode == 'fast':
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        if self.thread.is_alive():
            self.thread.join()

    def _look(self):
        while not self.stop.wait(self.period):
            seen = self.session.smc_stat()
            if total_bytes(seen) >= total_bytes(self.best):
                self.best = seen


def bytes_by_carrier(connections):
    """Bytes that the processes wrote and read, by what carried them."""
    sums = collections.Counter()
    for connection in connections:
        for carrier, pair in connection['bytes'].items():
            sums[carrier] += pair['tx'] + pair['rx']
    return sums


def total_bytes(connections):
    return sum(bytes_by_carrier(connections).values())


def human_bytes(count):
    for unit in ('B', 'kB', 'MB', 'GB'):
        if count < 1000:
            break
        count /= 1000
    else:
        unit = 'TB'
    return f'{count:.3g} {unit}'


def describe(connections):
    """The proof of the carrier in a few words: by what share of the bytes, or why not."""
    sums = bytes_by_carrier(connections)
    total = sum(sums.values())
    if not connections:
        return 'nothing seen'
    if not total:
        return f'{len(connections)} ends, no bytes yet'
    fastest = max(('shm', 'rdma', 'tcp'), key=lambda carrier: sums[carrier])
    text = f'{fastest} {100 * sums[fastest] / total:.4g} % of {human_bytes(total)}'
    carriers = collections.Counter(connection['carrier'] for connection in connections)
    text += ', ends: ' + ' '.join(f'{n} {carrier}' for carrier, n in sorted(carriers.items()))
    if fastest == 'tcp':
        reasons = collections.Counter(connection['reason'] for connection in connections)
        text += f', reason {reasons.most_common(1)[0][0]}'
    return text


# The programs. Each function starts what it needs in the session and returns a figure.

def qperf_server(session, pin=None):
    port, data_port = free_ports(2)
    session.serve(port, need('qperf'), '-lp', port, pin=pin)
    return port, data_port


def qperf(session, ports, test, size, seconds=1, pin=None):
    """Microseconds one way for tcp_lat, MB/s for tcp_bw."""
    out = session.run(need('qperf'), LOOPBACK, '-lp', ports[0], '-ip', ports[1], '-t', seconds,
                      '-uu', '-e', 5, '-m', size, test, pin=pin, timeout=seconds + 30)
    units = {'ns': 1e-3, 'us': 1, 'ms': 1e3, 'bytes/sec': 1e-6, 'KB/sec': 1e-3, 'MB/sec': 1, 'GB/sec': 1e3}
    found = re.search(r'(?:latency|bw)\s*=\s*([0-9.,]+)\s*(\S+)', out)
    if not found or found[2] not in units:
        raise Failed(f'qperf {test}: no figure in {out.strip()!r}')
    return float(found[1].replace(',', '')) * units[found[2]]


def redis_server(session):
    [port] = free_ports(1)
    path = session.dir / 'redis.sock'
    session.serve(port, need('redis-server'), '--port', port, '--bind', LOOPBACK, '--save', '',
                  '--appendonly', 'no', '--daemonize', 'no', '--unixsocket', path, '--dir', session.dir)
    return port, path


def redis_get(session, where, clients, requests, pipeline=1):
    """GETs per second; `where` is a port, or the path of a unix socket."""
    target = ['-h', LOOPBACK, '-p', where] if isinstance(where, int) else ['-s', where]
    out = session.run(need('redis-benchmark'), *target, '-t', 'get', '-c', clients, '-n', requests,
                      '-P', pipeline, '--csv', timeout=120)
    found = re.search(r'^"GET[^"]*","([0-9.]+)"', out, re.MULTILINE)
    if not found:
        raise Failed(f'redis-benchmark: no figure in {out.strip()!r}')
    return float(found[1])


class RedisPace:
    """redis-benchmark runs for a number of requests, not a time: guesses it from the rates so far."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.rates = {}

    def get(self, session, where, clients, pipeline=1):
        key = (session.mode, isinstance(where, int), clients, pipeline)
        if key not in self.rates:
            self.rates[key] = redis_get(session, where, clients, 3000 * pipeline, pipeline)
        requests = max(1000, int(self.rates[key] * self.seconds))
        self.rates[key] = redis_get(session, where, clients, requests, pipeline)
        return self.rates[key]


def sockperf_throughput(session, size, seconds=1):
    """Messages per second."""
    [port] = free_ports(1)
    session.serve(port, need('sockperf'), 'server', '--tcp', '-i', LOOPBACK, '-p', port)
    out = session.run(need('sockperf'), 'throughput', '--tcp', '-i', LOOPBACK, '-p', port, '-m', size,
                      '-t', seconds, timeout=seconds + 30)
    found = re.search(r'Message Rate is ([0-9.]+) \[msg/sec\]', out)
    if not found:
        raise Failed(f'sockperf: no figure in {out.strip()[-300:]!r}')
    return float(found[1])


NGINX_CONFIG = '''
user {user};
worker_processes 1;
pid {dir}/nginx.pid;
error_log stderr crit;
daemon off;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    server {{
        listen {address}:{port} backlog=1024;
        location / {{ return 200 "hello\\n"; }}
    }}
}}
'''


def http_close(session, seconds=1, clients=10):
    """Requests per second, each on a connection of its own."""
    [port] = free_ports(1)
    config = session.dir / 'nginx.conf'
    user = 'root' if os.geteuid() == 0 else 'nobody'
    config.write_text(NGINX_CONFIG.format(dir=session.dir, address=LOOPBACK, port=port, user=user))
    session.serve(port, need('nginx'), '-c', config, '-p', session.dir, '-e', 'stderr')
    out = session.run(need('wrk'), '-t', 1, '-c', clients, '-d', f'{seconds}s', '-H', 'Connection: close',
                      f'http://{LOOPBACK}:{port}/', timeout=seconds + 30)
    found = re.search(r'Requests/sec:\s*([0-9.]+)', out)
    if not found:
        raise Failed(f'wrk: no figure in {out.strip()!r}')
    return float(found[1])
