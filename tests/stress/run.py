#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the stress programs under the library and writes TAP.

Each program runs for a share of --seconds, with a seed of its own that is printed (--seed runs all of them
with the given one), and with an upgrade threshold drawn at random. A program checks what it moves by
itself; here the debug log is asked whether shared memory carried it: most connections that moved more than
a few bytes must have been carried, else the stress was none.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "behaviour"))
from smctest import CLOSE_LINE, Tap, descendants, describe, end_group, environment  # noqa: E402

# Name, program, arguments, share of the time, least share of connections carried by shared memory.
# Most connections of "switch" are meant to end before or in the change of carrier; of killed ends there is
# no line.
RUNS = (
    ("switch, threads", "switch_stress", [], 4, 0.03),
    ("switch, processes", "switch_stress", ["--processes"], 4, 0.03),
    ("switch, one connection at a time", "switch_stress", ["--connections", "1", "--processes"], 2, 0.005),
    ("epoll, threads", "epoll_stress", [], 3, 0.3),
    ("epoll, processes", "epoll_stress", ["--processes"], 3, 0.3),
    ("kill", "kill_stress", [], 3, 0.1),
    ("fork", "fork_stress", [], 3, 0.1),
)


def carried(log):
    """(connections carried, connections that moved enough to be worth it)"""
    shm = moved = 0
    for line in log.splitlines():
        m = CLOSE_LINE.search(line)
        if not m:
            continue
        sums = {k: int(v) for k, v in re.findall(r"([rt]x_\w+)=(\d+)", m["rest"])}
        if sum(sums.values()) < 4096:
            continue
        moved += 1
        shm += m["carrier"] == "shm"
    return shm, moved


def run_one(args, tap, name, program, arguments, seconds, share):
    seed = args.seed or random.randrange(1, 1 << 32)
    calls = random.Random(seed).choice((1, 1, 1, 2, 3, 5, 8))
    if "--connections" in arguments:
        calls = min(calls, 2)  # each connection is alone and short: later ones would all be over first
    with tempfile.TemporaryDirectory(prefix="stress.") as tmp:
        log = os.path.join(tmp, "log")
        env = environment(args.way, args.lib, log)
        env["SMC_UPGRADE_CALLS"] = str(args.calls or calls)
        env.setdefault("STRESS_GRACE", "1" if not args.slow else "10")
        command = [os.path.join(args.dir, program), "--seconds", f"{seconds:.1f}", "--seed", str(seed), *arguments]
        start = time.monotonic()
        with open(os.path.join(tmp, "out"), "w+b") as out:
            child = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=tmp,
                start_new_session=True,
            )
            notes = []
            try:
                child.wait(seconds * 3 + 90)
            except subprocess.TimeoutExpired:
                notes = ["does not end"] + describe(descendants(child.pid))
            finally:
                end_group(child)
            out.seek(0)
            text = out.read().decode(errors="replace")
        took = time.monotonic() - start
        if child.returncode != 0 or notes or "WARNING: ThreadSanitizer" in text or "ERROR: " in text:
            notes = [f"exit status {child.returncode}"] + notes + text.splitlines()[-args.lines:]
            notes.append("again: SMC_UPGRADE_CALLS=" + env["SMC_UPGRADE_CALLS"] + " " + " ".join(command))
        figures = " ".join(text.split("\n")[:2]).strip() if not notes else f"seed {seed}"
        shm = moved = 0
        if args.way == "accelerated" and os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as f:
                shm, moved = carried(f.read())
            figures += f", carried {shm} of {moved}"
            if not notes and shm < moved * share or not moved:
                notes.append(f"only {shm} of {moved} connections were carried by shared memory")
        elif args.way == "accelerated" and not notes:
            notes.append("no debug log")
        tap.point(not notes, f"{name} ({figures}, calls {env['SMC_UPGRADE_CALLS']}, {took:.1f} s)", notes)


def main():
    build = os.path.join(HERE, "..", "..", "build")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default=os.path.join(build, "preload", "libsmc_preload.so"))
    p.add_argument("--dir", default=os.path.join(build, "tests", "stress"), help="where the programs are")
    p.add_argument("--seconds", type=float, default=20, help="for all of them together")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--calls", type=int, default=0, help="upgrade threshold, in place of a random one")
    p.add_argument("--way", default="accelerated", choices=("plain", "accelerated", "fallback"))
    p.add_argument("--slow", action="store_true", help="sanitizers: be patient")
    p.add_argument("--lines", type=int, default=60, help="of output to show on failure")
    p.add_argument("-k", action="append", metavar="SUBSTRING", help="only runs with this in their name")
    p.add_argument("--list", action="store_true", help="only name them")
    args = p.parse_args()
    if args.list:
        print("\n".join(run[0] for run in RUNS))
        return 0
    args.lib, args.dir = os.path.abspath(args.lib), os.path.abspath(args.dir)

    todo = [r for r in RUNS if not args.k or any(k in r[0] for k in args.k)]
    total = sum(r[3] for r in todo)
    tap = Tap()
    print("TAP version 13")
    for name, program, arguments, weight, share in todo:
        if args.way != "plain" and not os.path.exists(args.lib):
            tap.point(True, f"{name} # SKIP no library at {args.lib}")
            continue
        run_one(args, tap, name, program, arguments, args.seconds * weight / total, share)
    print(f"1..{tap.n}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
