# SPDX-License-Identifier: BSD-2-Clause
"""What scripts/bench measures: groups of rows, each with its bar ("at least") and its aim."""

import dataclasses
import pathlib
import subprocess
import time
from typing import Callable, Optional

import programs


@dataclasses.dataclass
class Row:
    title: str
    unit: str
    # 'less', 'more': faster by a factor, accelerated against plain; 'added': what comes on top of plain
    kind: str
    bar: Optional[float] = None
    aim: str = ''
    met: Optional[Callable] = None  # (plain, fast, factor or difference, reference) -> the aim is met


@dataclasses.dataclass
class Group:
    name: str
    about: str
    rows: list
    # measures all rows once in the mode of the session: {title: value}; "TITLE, unix" is a reference
    measure: Callable


def factor(aim):
    return lambda plain, fast, ratio, reference: ratio >= aim


def at_most(aim):
    return lambda plain, fast, ratio, reference: fast <= aim


def added(aim):
    return lambda plain, fast, difference, reference: difference <= aim


SIZES = ((1, '1 B'), (16, '16 B'), (64, '64 B'), (256, '256 B'), (1024, '1 KiB'), (2048, '2 KiB'))


def latency_group(name, about, pins, bar, aim, met):
    """Bars and aims stand for messages up to 256 bytes."""
    rows = [Row(f'qperf tcp_lat {size_name}, {about}', 'us', 'less', *((bar, aim, met) if size <= 256 else ()))
            for size, size_name in SIZES]

    def measure(session):
        ports = programs.qperf_server(session, pin=pins[0])
        return {row.title: programs.qperf(session, ports, 'tcp_lat', size, pin=pins[1])
                for row, (size, _) in zip(rows, SIZES)}

    return Group(name, f'qperf tcp_lat, {about}', rows, measure)


def bandwidth_group():
    rows = [Row('qperf tcp_bw 64 KiB', 'MB/s', 'more', 3, '5 x', factor(5)),
            Row('qperf tcp_bw 1 KiB', 'MB/s', 'more', 4, '10 x', factor(10))]

    def measure(session):
        ports = programs.qperf_server(session)
        return {row.title: programs.qperf(session, ports, 'tcp_bw', size)
                for row, size in zip(rows, ('64K', '1K'))}

    return Group('bandwidth', 'qperf tcp_bw, 64 KiB and 1 KiB messages', rows, measure)


def sockperf_group():
    row = Row('sockperf throughput 64 B', 'msg/s', 'more', 5, '15 x', factor(15))
    return Group('sockperf', 'sockperf throughput, 64-byte messages', [row],
                 lambda session: {row.title: programs.sockperf_throughput(session, 64)})


REDIS = ((1, 1, 3), (50, 1, 1.5), (50, 16, 1.3))


def redis_group():
    def title(clients, pipeline):
        return f'redis GET -c {clients}' + (f' -P {pipeline}' if pipeline > 1 else '')

    rows = [Row(title(clients, pipeline), 'GET/s', 'more', bar, 'beats unix socket',
                lambda plain, fast, ratio, reference: reference and fast > reference)
            for clients, pipeline, bar in REDIS]
    pace = programs.RedisPace(1)

    def measure(session):
        port, path = programs.redis_server(session)
        values = {}
        for clients, pipeline, _ in REDIS:
            values[title(clients, pipeline)] = pace.get(session, port, clients, pipeline)
            if session.mode == 'plain':
                values[f'{title(clients, pipeline)}, unix'] = pace.get(session, path, clients, pipeline)
        return values

    return Group('redis', 'redis-benchmark GET, also against a unix socket', rows, measure)


def own(session, name, *arguments):
    """One figure from one of the small programs in tests/bench."""
    program = session.build / 'tests/bench' / f'bench_{name}'
    if not program.exists():
        raise programs.Missing(f'{program} is not built')
    return float(session.run(program, *arguments))


def connect_group():
    row = Row('connect, accept, close', 'conn/s', 'more', 0.95, '1.0 x', factor(1.0))
    return Group('connect', 'connections made and closed without data', [row],
                 lambda session: {row.title: own(session, 'connect', 1000)})


def http_group():
    row = Row('HTTP, Connection: close', 'req/s', 'more', 0.95, '1.0 x', factor(1.0))
    return Group('http', 'wrk against nginx, one request for a connection', [row],
                 lambda session: {row.title: programs.http_close(session)})


def calls_group():
    rows = [Row(title, 'ns', 'added', 10, '+3 ns', added(3))
            for title in ('pipe read/write', 'file open/close', 'UDP send/recv')]

    def best(session, kind):
        # where the kernel happened to put things makes some nanoseconds: several processes each
        return min(own(session, 'calls', kind, 150) for _ in range(5))

    return Group('calls', 'calls on what is no TCP connection', rows,
                 lambda session: {row.title: best(session, kind)
                                  for row, kind in zip(rows, ('pipe', 'file', 'udp'))})


def spawn_group():
    row = Row('start of true', 'us', 'added', 1000, '+300 us', added(300))

    def measure(session):
        library = session.build / 'preload/libsmc_preload.so'
        # the program that starts is plain either way
        prefix, session.prefix = session.prefix, lambda: []
        try:
            variable = [f'LD_PRELOAD={library}'] if session.mode == 'fast' else []
            return {row.title: own(session, 'spawn', 300, *variable, programs.need('true'))}
        finally:
            session.prefix = prefix

    return Group('spawn', 'start of a process under the library', [row], measure)


IDLE_CONNECTIONS = 1000
IDLE_SECONDS = 5


def cpu_ns(pid):
    return sum(int(path.read_text().split()[0])
               for path in pathlib.Path(f'/proc/{pid}/task').glob('*/schedstat'))


def private_kib(pid):
    return sum(int(line.split()[1]) for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines()
               if line.startswith('RssAnon:'))


def shared_kib():
    """Of the whole machine: memory files count even where nobody has touched or mapped them."""
    return sum(int(line.split()[1]) for line in pathlib.Path('/proc/meminfo').read_text().splitlines()
               if line.startswith('Shmem:'))


def idle_group():
    rows = [Row(f'{IDLE_CONNECTIONS} idle connections, CPU', 'ms/s', 'added', 0.1, '+0', added(0.02)),
            Row('memory of one of them, both ends', 'KiB', 'added')]

    def measure(session):
        before = shared_kib()
        process = session.start(session.build / 'tests/bench/bench_idle', IDLE_CONNECTIONS,
                                stdin=subprocess.PIPE)
        line = process.stdout.readline().split()
        if len(line) != 2:
            raise programs.Failed(f'bench_idle: {process.stderr.read().strip()}')
        pids = [int(pid) for pid in line]
        time.sleep(1)  # what is still under way settles
        used = -sum(cpu_ns(pid) for pid in pids)
        time.sleep(IDLE_SECONDS)
        used += sum(cpu_ns(pid) for pid in pids)
        memory = sum(private_kib(pid) for pid in pids) + shared_kib() - before
        process.stdin.close()
        process.wait(10)
        return {rows[0].title: used / 1e6 / IDLE_SECONDS, rows[1].title: memory / IDLE_CONNECTIONS}

    return Group('idle', f'{IDLE_CONNECTIONS} accelerated connections at rest', rows, measure)


def all_groups():
    return [
        latency_group('latency', 'two CPUs', (0, 1), 25, '0.5 us', at_most(0.5)),
        latency_group('latency-one-cpu', 'one CPU', (0, 0), 2, '3 x', factor(3)),
        latency_group('latency-free', 'not pinned', (None, None), 5, '25 x', factor(25)),
        bandwidth_group(),
        sockperf_group(),
        redis_group(),
        connect_group(),
        http_group(),
        calls_group(),
        idle_group(),
        spawn_group(),
    ]
