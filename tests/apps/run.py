#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs real programs plain and accelerated, and writes TAP.

Each test returns what must be equal both ways (contents, counts, exit codes, not speeds); for the
accelerated way the debug log must prove that shared memory carried the bytes. Speeds are told as notes.
"""

import argparse
import os
import sys
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import programs  # noqa: E402
import web  # noqa: E402
from world import Failed, Skip, Tap, World  # noqa: E402

TESTS = programs.TESTS + web.TESTS
TRIES = 3


class NotCarried(Failed):
    """Right results, but by TCP: the upgrade is made in the background and may come late on a busy machine."""


def play(test, way, lib):
    world = World(way, lib)
    try:
        result = test.run(world)
        # Servers that were only killed have not told of their connections; what there is must do.
        carried = world.carried()
        notes = world.notes
        if way == "accelerated" and test.carried is not None:
            shm, total, shm_bytes, total_bytes = carried
            share = shm_bytes / total_bytes if total_bytes else 0
            notes.append(f"shared memory carried {shm} of {total} connections, {share:.1%} of the bytes")
            if not shm or share < test.carried:
                raise NotCarried("\n".join([notes[-1], *world.log_tail()]))
        if way == "fallback" and carried[0]:
            raise Failed("carried by shared memory although forbidden")
        return result, notes
    finally:
        world.close()


def play_until_carried(test, way, lib):
    for _ in range(TRIES - 1):
        try:
            return play(test, way, lib)
        except NotCarried:
            pass
    return play(test, way, lib)


def run_test(test, ways, lib, tap):
    reference = None
    for way in ["plain"] + [w for w in ways if w != "plain"]:
        start = time.monotonic()
        if way != "plain" and not os.path.exists(lib):
            tap.point(True, f"{test.name} {way} # SKIP no library at {lib}")
            continue
        notes, ok = [], True
        try:
            result, notes = play_until_carried(test, way, lib)
            if way == "plain":
                reference = result
            elif result != reference:
                ok = False
                notes += [f"plain:  {reference}", f"{way}: {result}"]
        except Skip as e:
            tap.point(True, f"{test.name} # SKIP {e}")
            return
        except Failed as e:
            ok, notes = False, str(e).splitlines()
        except Exception:  # noqa: BLE001, a broken test must not hide the others
            ok, notes = False, traceback.format_exc().splitlines()
        tap.point(ok, f"{test.name} {way} ({time.monotonic() - start:.1f} s)", notes)
        if way == "plain" and not ok:
            return


def main():
    build = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default=os.path.join(build, "preload", "libsmc_preload.so"))
    p.add_argument("--ways", default="accelerated", help="plain always comes first; also: fallback")
    p.add_argument("-k", action="append", metavar="SUBSTRING", help="only tests with this in their name")
    p.add_argument("--list", action="store_true", help="only name them")
    args = p.parse_args()
    if args.list:
        print("\n".join(test.name for test in TESTS))
        return 0
    tap = Tap()
    print("TAP version 13")
    for test in TESTS:
        if not args.k or any(k in test.name for k in args.k):
            run_test(test, args.ways.split(","), os.path.abspath(args.lib), tap)
    print(f"1..{tap.n}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
