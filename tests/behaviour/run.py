#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Plays every scenario of `behave` plain, accelerated and forced to fall back, and compares.

Plain TCP without the library is the reference: the transcripts of the other two ways must equal its
transcript byte for byte. In the accelerated way the library's debug log must prove that shared memory
carried the connections (unless the scenario says otherwise), in the fallback way that it carried none.
Writes TAP: one point per scenario and way.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
from smctest import CLOSE_LINE, Tap, descendants, describe, environment, kill_all  # noqa: E402

WAYS = ("plain", "accelerated", "fallback")


class Played:
    def __init__(self, code, out, err, log, hang):
        self.code, self.out, self.err, self.log, self.hang = code, out, err, log, hang


def play(args, name, way, limit):
    with tempfile.TemporaryDirectory(prefix="behave.") as tmp:
        log = os.path.join(tmp, "log")
        env = environment(way, args.lib, log)
        env["TMPDIR"] = tmp
        os.chmod(tmp, 0o777)
        with open(log, "wb"):
            os.chmod(log, 0o666)  # parts may change their user
        with open(os.path.join(tmp, "out"), "w+b") as out, open(os.path.join(tmp, "err"), "w+b") as err:
            child = subprocess.Popen(
                [args.behave, name], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True, cwd=tmp,
            )
            hang = None
            try:
                child.wait(limit)
            except subprocess.TimeoutExpired:
                hang = describe(descendants(child.pid))
                kill_all(child.pid)
                child.wait()
            finally:
                if child.poll() is None:
                    kill_all(child.pid)
                    child.wait()
            for f in (out, err):
                f.seek(0)
            with open(log, encoding="utf-8", errors="replace") as f:
                text = f.read()
            return Played(
                child.returncode, out.read().decode(errors="replace"), err.read().decode(errors="replace"),
                text, hang,
            )


def carrier_complaint(way, flags, log):
    """What is wrong with the carriers that the debug log tells of, or None."""
    ends = [m for m in map(CLOSE_LINE.search, log.splitlines()) if m]
    shm = [m for m in ends if m["carrier"] == "shm"]
    tcp = [m for m in ends if m["carrier"] != "shm"]
    if way == "fallback" or "must_be_tcp" in flags:
        return "carried by shared memory: " + shm[0][0] if shm else None
    if "may_be_tcp" in flags:
        return None
    if not shm:
        return "no connection was carried by shared memory" + (", the log is empty" if not log else "")
    if "some_tcp" in flags:
        return None
    # An end may have no line (killed), but one that has must not say TCP if it moved bytes.
    moved = [m for m in tcp if re.search(r"[rt]x_tcp=[1-9]", m["rest"])]
    return "stayed on TCP: " + moved[0][0] if moved else None


def same(reference, got, way):
    """Differences between two transcripts as notes; empty if there are none."""
    notes = []
    for what, a, b in (("transcript", reference.out, got.out), ("stderr", reference.err, got.err)):
        if a != b:
            notes += list(
                difflib.unified_diff(
                    a.splitlines(), b.splitlines(), f"plain {what}", f"{way} {what}", lineterm="", n=6
                )
            )[:80]
    if reference.code != got.code:
        notes.append(f"exit status {got.code}, plain {reference.code}")
    return notes


def trouble_in_plain(p):
    """Reasons why the plain run is no reference."""
    notes = []
    if p.hang is not None:
        notes += ["the plain run does not end:", p.out] + p.hang
    if p.code not in (0, 77):
        notes += [f"the plain run exits with {p.code}", p.out, p.err]
    for bad in ("BROKEN", "HANG", "GAVE UP", "killed by", "exit 9"):
        if f"\n{bad}" in p.out or f": {bad}" in p.out and bad != "killed by":
            notes += [f"the plain run says {bad}:", p.out]
            break
    return notes


TRIES = 4


def run_scenario(args, tap, name, flags):
    start = time.monotonic()
    reference = play(args, name, "plain", args.limit)
    plain_s = time.monotonic() - start
    if reference.code == 77:
        for way in args.ways[1:] or args.ways:
            tap.point(True, f"{name} {way} # SKIP {reference.out.strip().removeprefix('SKIP ')}")
        return
    notes = trouble_in_plain(reference)
    if "plain" in args.ways or notes:
        for _ in range(args.repeat if "plain" in args.ways else 0):
            if notes:
                break
            notes = same(reference, play(args, name, "plain", args.limit), "plain again")
        tap.point(not notes, f"{name} plain ({plain_s:.2f} s)", notes)
        if notes:
            return
    for way in args.ways:
        if way == "plain":
            continue
        if not os.path.exists(args.lib):
            tap.point(True, f"{name} {way} # SKIP no library at {args.lib}")
            continue
        if way == "accelerated" and "differs" in flags:
            tap.point(True, f"{name} {way} # SKIP a known difference, see CAVEATS in libsmc_preload(7)")
            continue
        for _ in range(args.repeat + 1):
            # The upgrade is made in the background, and on a busy machine may come after the scenario's end:
            # that alone is tried again. A different transcript never is.
            for _ in range(TRIES if way == "accelerated" else 1):
                start = time.monotonic()
                got = play(args, name, way, args.limit)
                took = time.monotonic() - start
                notes = same(reference, got, way)
                complaint = carrier_complaint(way, flags, got.log)
                if notes or got.hang is not None or not complaint:
                    break
            if got.hang is not None:
                notes = [f"does not end within {args.limit} s"] + notes + got.hang
            if complaint:
                notes.append(complaint)
            if notes:
                if args.log:
                    notes += ["debug log:"] + got.log.splitlines()[-args.log:]
                break
        tap.point(not notes, f"{name} {way} ({took:.2f} s)", notes)


def scenarios(args):
    listed = subprocess.run([args.behave, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in listed.splitlines():
        name, *flags = line.split()
        if not args.k or any(k in name for k in args.k):
            yield name, set(flags)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    build = os.path.join(here, "..", "..", "build")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default=os.path.join(build, "preload", "libsmc_preload.so"))
    p.add_argument("--behave", default=os.path.join(build, "tests", "behaviour", "behave"))
    p.add_argument("-k", action="append", metavar="SUBSTRING", help="only scenarios with this in their name")
    p.add_argument("-j", type=int, default=4, metavar="N", help="scenarios at the same time")
    p.add_argument("--limit", type=float, default=20, help="seconds for one play")
    p.add_argument("--ways", default="accelerated,fallback", help="of plain,accelerated,fallback")
    p.add_argument("--repeat", type=int, default=0, help="play again so many times; plain must equal itself")
    p.add_argument("--log", type=int, default=0, metavar="LINES", help="show the end of the debug log too")
    args = p.parse_args()
    args.lib, args.behave = os.path.abspath(args.lib), os.path.abspath(args.behave)
    args.ways = args.ways.split(",")
    if not set(args.ways) <= set(WAYS):
        p.error("unknown way")

    todo = list(scenarios(args))
    per = (len([w for w in args.ways if w != "plain"]) or 0) + ("plain" in args.ways)
    tap = Tap()
    print("TAP version 13")
    with ThreadPoolExecutor(args.j) as pool:
        for f in [pool.submit(run_scenario, args, tap, name, flags) for name, flags in todo]:
            f.result()
    print(f"1..{tap.n}")
    print(f"# {len(todo)} scenarios, {per} ways, {tap.failed} failed")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
