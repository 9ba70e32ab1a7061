# SPDX-License-Identifier: BSD-2-Clause
"""Checks as functions: each named test_... of a module is run and reported as a line of TAP."""

import traceback


class Skip(Exception):
    """Raised by a check that cannot be made here; the argument says why."""


def run(module):
    """Runs the checks in the order of the source; returns the exit status."""
    checks = [(name, value) for name, value in vars(module).items()
              if name.startswith('test_') and callable(value)]
    print(f'1..{len(checks)}')
    failed = 0
    for number, (name, check) in enumerate(checks, 1):
        title = name[len('test_'):].replace('_', ' ')
        try:
            check()
        except Skip as skip:
            print(f'ok {number} {title} # SKIP {skip}', flush=True)
        except Exception:  # every check must get its line
            failed += 1
            print(f'not ok {number} {title}', flush=True)
            for line in traceback.format_exc().splitlines():
                print(f'# {line}')
        else:
            print(f'ok {number} {title}', flush=True)
    return 1 if failed else 0
