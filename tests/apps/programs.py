# SPDX-License-Identifier: BSD-2-Clause
"""Tests with qperf, iperf3, sockperf, redis, nc and socat."""

import json
import os
import re
import signal
import subprocess
from typing import Callable, NamedTuple, Optional

from world import Failed, World, free_port, need, sha

MIB = 1 << 20


class Test(NamedTuple):
    name: str
    run: Callable[[World], object]
    carried: Optional[float]  # least share of the bytes that shared memory must carry; None: any


def qperf(w):
    need("qperf")
    port = free_port()
    server = w.start("qperf", "-lp", str(port), port=port)
    out = w.run("qperf", "-lp", str(port), "127.0.0.1", "-t", "1", "-vu", "tcp_lat", "tcp_bw")
    w.notes += [line.strip() for line in out.splitlines() if "latency" in line or "bw " in line]
    w.stop(server)
    return [line.split()[0] for line in out.splitlines() if "=" in line and line.split()[0] in ("latency", "bw")]


def iperf3(w, *options):
    need("iperf3")
    port = free_port()
    server = w.start("iperf3", "-s", "-1", "-p", str(port), "--forceflush", port=port)
    report = json.loads(w.run("iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", "1", "-J", *options))
    if "error" in report:
        raise Failed(report["error"])
    server.wait(5)
    end = report["end"]
    gib = end["sum_received"]["bytes"] / (1 << 30)
    w.notes.append(f"{gib:.2f} GiB received")
    # What was received was sent, and at most a buffer of each stream was on its way at the end.
    lost = end["sum_sent"]["bytes"] - end["sum_received"]["bytes"]
    return {
        "streams": len(end["streams"]),
        "moved": end["sum_received"]["bytes"] > MIB,
        "lost": not 0 <= lost < 256 * MIB,
        "server": server.returncode,
    }


def sockperf(w):
    need("sockperf")
    port = str(free_port())
    server = w.start("sockperf", "server", "--tcp", "-i", "127.0.0.1", "-p", port, port=int(port))
    result = {}
    # ping-pong as fast as it can is more than the program can count
    for mode, options in (("ping-pong", ["--mps", "20000"]), ("throughput", ["--msg-size", "64"])):
        out = w.run("sockperf", mode, "--tcp", "-i", "127.0.0.1", "-p", port, "-t", "1", *options)
        w.notes += [
            re.sub(r"\x1b\[[\d;]*m|sockperf:|=+>", "", line).strip()
            for line in out.splitlines() if "avg-latency" in line or "Message Rate" in line
        ]
        result[mode] = re.findall(r"# (?:dropped|duplicated|out-of-order) messages = \d+", out)
    w.stop(server, signal.SIGINT)
    return result


def redis_server(w):
    need("redis-server", "redis-cli", "redis-benchmark")
    port = str(free_port())
    server = w.start(
        "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
        "--dir", w.tmp, "--daemonize", "no", port=int(port),
    )
    return server, port


def redis_benchmark(w):
    server, port = redis_server(w)
    result = []
    for options in (["-c", "20"], ["-c", "1", "-n", "3000"], ["-c", "50", "-P", "16"], ["-c", "10", "--threads", "2"]):
        out = w.run("redis-benchmark", "-p", port, "-q", "-n", "20000", "-t", "ping,set,get,lpush,lrange_100", "-d",
                    "100", *(options + ([] if "-n" in options else [])), timeout=40)
        last = [line.split("\r")[-1] for line in out.splitlines() if "requests per second" in line]
        w.notes += [f"{' '.join(options)}: {line.strip()}" for line in last if "GET" in line]
        result.append([line.split(":")[0] for line in last])
    if w.stop(server) != 0:
        raise Failed("redis-server: exit status")
    return result


def redis_data(w):
    server, port = redis_server(w)
    big = w.random_file("big", 5 * MIB)
    with open(big, "rb") as f:
        content = f.read()
    cli = ("redis-cli", "-p", port)
    result = {
        "set": w.run(*cli, "-x", "set", "big", stdin=content).strip(),
        "len": w.run(*cli, "strlen", "big").strip(),
        "get": sha(w.run(*cli, "get", "big", binary=True)[:-1]) == sha(content),
    }
    lines = "".join(f"SET key:{i} value:{i * 7}\r\n" for i in range(20000))
    result["pipe"] = w.run(*cli, "--pipe", stdin=lines.encode()).splitlines()[-1]
    result["size"] = w.run(*cli, "dbsize").strip()
    result["many"] = w.run(*cli, "-r", "200", "incr", "counter").split()[-1]
    result["scan"] = len(w.run(*cli, "--scan", "--pattern", "key:1*").split())
    # A blocked reader that another client wakes.
    waiter = w.start("redis-cli", "-p", port, "blpop", "queue", "10", out="waiter.out")
    w.wait_for(lambda: "blocked_clients:1" in w.run(*cli, "info", "clients"), "a blocked client")
    w.run(*cli, "rpush", "queue", "item")
    waiter.wait(5)
    result["blpop"] = w.output(waiter).split()
    w.stop(server)
    return result


def nc(w):
    need("nc")
    port = str(free_port())
    data, back = w.random_file("there", 64 * MIB), w.random_file("back", 8 * MIB)
    with open(back, "rb") as f:
        server = w.start("nc", "-l", "127.0.0.1", port, stdin=f, out="got-there", port=int(port))
    with open(data, "rb") as f:
        client = w.start("nc", "-N", "127.0.0.1", port, stdin=f, out="got-back")
    client.wait(15)
    server.wait(15)
    return {
        "there": sha(w.path("got-there")) == sha(data), "back": sha(w.path("got-back")) == sha(back),
        "exits": (client.returncode, server.returncode),
    }


def socat(w):
    need("socat")
    port = str(free_port())
    data = w.random_file("there", 8 * MIB)
    server = w.start("socat", "-u", f"TCP-LISTEN:{port},bind=127.0.0.1", f"CREATE:{w.path('got')}", port=int(port))
    w.run("socat", "-u", f"FILE:{data}", f"TCP:127.0.0.1:{port}")
    server.wait(5)
    result = {"one way": sha(w.path("got")) == sha(data), "exit": server.returncode}
    # Both ways by fork (PIPE in place of cat can block itself for ever); the answer comes while the question is still being sent.
    port = str(free_port())
    server = w.start("socat", f"TCP-LISTEN:{port},bind=127.0.0.1,fork", "EXEC:cat", port=int(port))
    with open(data, "rb") as f:
        content = f.read()
    for i in range(3):
        out = w.run("socat", "-t", "5", "-", f"TCP:127.0.0.1:{port}", stdin=content, binary=True)
        result[f"echo {i}"] = sha(out) == sha(content)
    w.stop(server)
    return result


def socat_exec(w):
    """The connection becomes the standard input and output of another program."""
    need("socat")
    port = str(free_port())
    content = os.urandom(3 * MIB)
    server = w.start(
        "socat", f"TCP-LISTEN:{port},bind=127.0.0.1,fork", "EXEC:cat,nofork", port=int(port),
    )
    result = []
    for _ in range(3):
        out = w.run("socat", "-t", "5", "-", f"TCP:127.0.0.1:{port}", stdin=content, binary=True)
        result.append(sha(out) == sha(content))
    w.stop(server)
    return result


def bash_tcp(w):
    """bash's /dev/tcp: connect, dup2, and programs that inherit the descriptor."""
    need("bash", "socat")
    port = str(free_port())
    server = w.start("socat", f"TCP-LISTEN:{port},bind=127.0.0.1,fork", "PIPE", port=int(port))
    script = (
        f"exec 5<>/dev/tcp/127.0.0.1/{port}; for i in 1 2 3 4 5 6 7 8; do echo line $i >&5; read -r x <&5; "
        "echo $x; done; seq 1 1000 >&5; head -n 1000 <&5 | sha256sum; exec 5>&-"
    )
    out = w.run("bash", "-c", script)
    w.stop(server)
    return out


def python_client(w):
    """Python's own ways: makefile, sendfile, selectors, socketpair-like threads, asyncio."""
    script = w.write("client.py", PYTHON_SCRIPT)
    return w.run("/usr/bin/python3", script, timeout=30).splitlines()


PYTHON_SCRIPT = r"""
import asyncio, hashlib, os, socket, socketserver, tempfile, threading

blob = bytes(range(256)) * 8192

class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            self.wfile.write(line.upper())

server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
with socket.create_connection(server.server_address) as s:
    f = s.makefile("rw", encoding="ascii", newline="\n")
    for i in range(200):
        f.write(f"line {i}\n")
        f.flush()
        assert f.readline() == f"LINE {i}\n"
print("makefile ok")
server.shutdown()

listener = socket.create_server(("127.0.0.1", 0))
def sink(out):
    c, _ = listener.accept()
    with c:
        h = hashlib.sha256()
        n = 0
        while data := c.recv(100000):
            h.update(data)
            n += len(data)
        out.append((n, h.hexdigest()[:16]))
out = []
t = threading.Thread(target=sink, args=(out,))
t.start()
with tempfile.TemporaryFile() as f, socket.create_connection(listener.getsockname()) as s:
    f.write(blob)
    f.seek(0)
    for i in range(20):
        s.sendall(b"x" * 10)
    s.sendfile(f)
t.join(10)
print("sendfile", out)

async def main():
    async def handle(r, w):
        while data := await r.read(65536):
            w.write(data)
            await w.drain()
        w.close()
    srv = await asyncio.start_server(handle, "127.0.0.1", 0)
    async def one(i):
        r, w = await asyncio.open_connection(*srv.sockets[0].getsockname())
        for k in range(30):
            w.write(b"%d %d\n" % (i, k))
            assert await r.readline() == b"%d %d\n" % (i, k)
        async def feed():
            for k in range(16):
                w.write(blob[: 1 << 17])
                await w.drain()
            w.write_eof()
        feeder = asyncio.create_task(feed())
        got = hashlib.sha256(await r.read()).hexdigest()[:16]
        await feeder
        w.close()
        return got
    print("asyncio", set(await asyncio.gather(*(one(i) for i in range(20)))))
    srv.close()
asyncio.run(main())

pid_listener = socket.create_server(("127.0.0.1", 0))
pid = os.fork()
if pid == 0:
    c, _ = pid_listener.accept()
    while data := c.recv(4096):
        c.sendall(data[::-1])
    os._exit(0)
with socket.create_connection(pid_listener.getsockname()) as s:
    for i in range(100):
        s.sendall(b"abc")
        assert s.recv(3, socket.MSG_WAITALL) == b"cba"
print("fork", os.waitpid(pid, 0)[1])
"""


def subprocess_env(w):  # a program that starts others with an empty environment
    out = subprocess.run(
        ["/usr/bin/env", "-i", "/bin/sh", "-c", "echo ok"], env=w.env, stdout=subprocess.PIPE, check=True, text=True
    )
    return out.stdout


TESTS = [
    Test("qperf tcp_lat tcp_bw", qperf, 0.5),
    Test("iperf3", iperf3, 0.5),
    Test("iperf3 -R", lambda w: iperf3(w, "-R"), 0.5),
    Test("iperf3 -P 4", lambda w: iperf3(w, "-P", "4"), 0.5),
    Test("iperf3 --bidir", lambda w: iperf3(w, "--bidir"), 0.5),
    Test("sockperf", sockperf, 0.5),
    Test("redis-benchmark", redis_benchmark, 0.5),
    Test("redis data", redis_data, 0.0),
    Test("nc", nc, 0.0),
    Test("socat", socat, 0.1),
    Test("socat EXEC", socat_exec, None),
    Test("bash /dev/tcp", bash_tcp, None),
    Test("python", python_client, 0.1),
    Test("empty environment", subprocess_env, None),
]
