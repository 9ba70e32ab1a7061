# SPDX-License-Identifier: BSD-2-Clause
"""What a test of a real program needs: a folder, free ports, children that are always ended."""

import hashlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "behaviour"))
from smctest import CLOSE_LINE, Tap, environment, kill_all  # noqa: E402, F401


class Skip(Exception):
    """A program is missing."""


class Failed(Exception):
    """Something is wrong; the text says what."""


def need(*programs):
    for p in programs:
        if not shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            raise Skip(f"no {p}")


def sha(path_or_bytes):
    if isinstance(path_or_bytes, bytes):
        return hashlib.sha256(path_or_bytes).hexdigest()[:16]
    with open(path_or_bytes, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port):
    """Asks the kernel; a probing connection would be taken for a client."""
    want = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as f:
                for line in f:
                    fields = line.split()
                    if fields[1].endswith(want) and fields[3] == "0A":
                        return True
        except OSError:
            pass
    return False


class World:
    """One way (plain, accelerated, fallback) to run the programs of one test."""

    def __init__(self, way, lib):
        self.way = way
        self.tmp = tempfile.mkdtemp(prefix="apps.")
        os.chmod(self.tmp, 0o755)
        self.log = os.path.join(self.tmp, "smc.log")
        with open(self.log, "wb"):
            os.chmod(self.log, 0o666)  # servers change their user
        self.env = environment(way, lib, self.log)
        self.env["PATH"] += ":/usr/sbin:/sbin"
        self.env["LC_ALL"] = "C"
        self.children = []
        self.notes = []

    def path(self, *names):
        return os.path.join(self.tmp, *names)

    def write(self, name, content, mode="w"):
        with open(self.path(name), mode) as f:
            f.write(content)
        return self.path(name)

    def random_file(self, name, size):
        return self.write(name, random.Random(name).randbytes(size), "wb")

    def start(self, *command, port=None, out=None, stdin=subprocess.DEVNULL, **env):
        """A server: runs until stop(); waits until it listens on `port`."""
        sink = open(self.path(out or f"child{len(self.children)}.out"), "wb")  # noqa: SIM115
        child = subprocess.Popen(
            command, env={**self.env, **env}, stdin=stdin, stdout=sink, stderr=subprocess.STDOUT,
            cwd=self.tmp, start_new_session=True,
        )
        sink.close()
        child.sink = sink.name
        self.children.append(child)
        if port:
            self.wait_for(lambda: listening(port) or child.poll() is not None, f"{command[0]} to listen")
            if child.poll() is not None and not listening(port):
                raise Failed(f"{command[0]} ended with {child.returncode}: {self.output(child)}")
        return child

    @staticmethod
    def output(child):
        with open(child.sink, encoding="utf-8", errors="replace") as f:
            return f.read()

    def run(self, *command, stdin=None, timeout=20, ok=True, binary=False):
        """A client: runs to its end; returns its output."""
        child = subprocess.Popen(
            command, env=self.env, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.tmp, start_new_session=True,
        )
        self.children.append(child)
        try:
            out, err = child.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            kill_all(child.pid)
            out, err = child.communicate()
            raise Failed(f"{' '.join(command)[:200]} does not end: {out[-500:]!r} {err[-500:]!r}") from None
        if ok and child.returncode != 0:
            raise Failed(
                f"{' '.join(command)[:200]} ended with {child.returncode}: {out[-500:]!r} {err[-500:]!r}"
            )
        return out if binary else out.decode(errors="replace") + err.decode(errors="replace")

    def wait_for(self, condition, what, seconds=10):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise Failed(f"waited in vain for {what}")
            time.sleep(0.01)

    def stop(self, child, signo=signal.SIGTERM, seconds=5):
        """Asks a server to end; it must do so by itself."""
        if child.poll() is None:
            child.send_signal(signo)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{child.args[0]} does not end on signal {signo}") from None
        return child.returncode

    def close(self):
        for child in self.children:
            if child.poll() is None:
                kill_all(child.pid)
                child.wait()
            try:
                os.killpg(child.pid, signal.SIGKILL)  # what it left behind
            except OSError:
                pass
        shutil.rmtree(self.tmp, ignore_errors=True)

    def carried(self):
        """(connections that shared memory carried, all, bytes by shared memory, all)"""
        shm = total = shm_bytes = total_bytes = 0
        with open(self.log, encoding="utf-8", errors="replace") as f:
            for m in filter(None, map(CLOSE_LINE.search, f)):
                sums = {k: int(v) for k, v in re.findall(r"([rt]x_\w+)=(\d+)", m["rest"])}
                if not sum(sums.values()):
                    continue
                total += 1
                shm += m["carrier"] == "shm"
                total_bytes += sum(sums.values())
                shm_bytes += sums.get("tx_shm", 0) + sums.get("rx_shm", 0)
        return shm, total, shm_bytes, total_bytes

    def log_tail(self, lines=12):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read().splitlines()[-lines:]
