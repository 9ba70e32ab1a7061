# SPDX-License-Identifier: BSD-2-Clause
"""What the runners of the suites behaviour, stress and apps share."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

CLOSE_LINE = re.compile(
    r"smc\[(?P<pid>\d+)\] (?P<what>closed|open-at-exit) fd=(?P<fd>-?\d+) local=(?P<local>\S+) "
    r"remote=(?P<remote>\S+) role=(?P<role>\S+) carrier=(?P<carrier>\S+) reason=(?P<reason>\d+)(?P<rest>.*)"
)


def environment(way, lib, log):
    """The library is loaded into the scenario only, never into this program."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SMC_", "LD_PRELOAD", "BEHAVE_"))}
    # For builds with a sanitizer: the library comes before its run time in the link order.
    env["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0:" + env.get("ASAN_OPTIONS", "")
    env["TSAN_OPTIONS"] = "die_after_fork=0:" + env.get("TSAN_OPTIONS", "")
    if way != "plain":
        env["LD_PRELOAD"] = lib
        env["SMC_UPGRADE_CALLS"] = "1"
        env["SMC_DEBUG"] = os.environ.get("SMC_DEBUG", "1")
        env["SMC_DEBUG_FILE"] = log
    if way == "fallback":
        env["SMC_CARRIER"] = "tcp"
    return env


def descendants(pid):
    """pid and all processes below it."""
    found, todo = [], [pid]
    while todo:
        p = todo.pop()
        found.append(p)
        try:
            for tid in os.listdir(f"/proc/{p}/task"):
                with open(f"/proc/{p}/task/{tid}/children", encoding="ascii") as f:
                    todo += [int(c) for c in f.read().split()]
        except OSError:
            pass
    return found


def first_line(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().replace("\0", " ").strip()
    except OSError as e:
        return f"({e.strerror})"


def describe(pids):
    """Where the processes of a hung scenario are."""
    out = []
    for pid in pids:
        out.append(f"process {pid}: {first_line(f'/proc/{pid}/cmdline')}")
        try:
            tids = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for tid in tids:
            base = f"/proc/{pid}/task/{tid}"
            out.append(
                f"  thread {tid} wchan {first_line(base + '/wchan')} syscall {first_line(base + '/syscall')}"
            )
        try:
            gdb = subprocess.run(
                ["gdb", "-q", "-batch", "-p", str(pid), "-ex", "thread apply all bt 16"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=20,
                check=False, text=True, errors="replace",
            )
            out += ["  " + line for line in gdb.stdout.splitlines() if line.startswith(("#", "Thread"))]
        except (OSError, subprocess.TimeoutExpired):
            pass
    return out


def kill_all(pid):
    """Ends a play and everything below it; its own children only."""
    for _ in range(3):
        for p in reversed(descendants(pid)):
            try:
                os.kill(p, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.02)


def end_group(child):
    """Ends what is left of a child that leads a process group of its own, and its group."""
    if child.poll() is None:
        kill_all(child.pid)
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        pass
    child.wait()


class Tap:
    def __init__(self):
        self.lock = threading.Lock()
        self.n = self.failed = 0

    def point(self, ok, text, notes=()):
        with self.lock:
            self.n += 1
            self.failed += not ok
            print(f"{'ok' if ok else 'not ok'} {self.n} - {text}")
            for note in notes:
                for line in str(note).splitlines():
                    print(f"# {line}")
            sys.stdout.flush()
