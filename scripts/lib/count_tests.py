# SPDX-License-Identifier: BSD-2-Clause
"""count_tests.py CHECKS [BUILD:FILE...]: sums up what scripts/test ran.

CHECKS has a line "passed NAME" or "failed NAME" for each step of its own. BUILD is a build folder with
the logs of `meson test`. A test that reports sub-tests (TAP) counts as these; one that failed without a
failed sub-test (it crashed, or took too long) as one more. The last line is "N passed, N failed, N skipped".
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

BAD = {'FAIL', 'ERROR', 'TIMEOUT', 'INTERRUPT', 'UNEXPECTEDPASS'}


class Count:
    def __init__(self):
        self.passed = self.skipped = 0
        self.failed = []
        self.reasons = []

    def add(self, name, result, text=''):
        if result == 'failed':
            self.failed.append(name)
        elif result == 'skipped':
            self.skipped += 1
            self.reasons.append(f'{name}{": " if text else ""}{text}')
        else:
            self.passed += 1


def sub_tests(junit):
    """{suite name: [(name, result, text)]} of the tests that have sub-tests; names are PROJECT.TEST."""
    suites = {}
    for suite in ElementTree.parse(junit).getroot().iter('testsuite'):
        for case in suite.iter('testcase'):
            if case.find('failure') is not None or case.find('error') is not None:
                result = 'failed'
            elif case.find('skipped') is not None:
                result = 'skipped'
            else:
                result = 'passed'
            cases = suites.setdefault(suite.get('name'), [])
            cases.append((case.get('name'), result, (case.findtext('system-out') or '').strip()))
    return suites


def count_build(count, build):
    logs = pathlib.Path(build) / 'meson-logs'
    try:
        tests = [json.loads(line) for line in (logs / 'testlog.json').read_text().splitlines()]
        suites = sub_tests(logs / 'testlog.junit.xml')
    except (OSError, ValueError, ElementTree.ParseError) as error:
        count.add(f'{build}: no test log ({error})', 'failed')
        return
    if not tests:
        count.add(f'{build}: no tests', 'failed')
    for test in tests:
        name = test['name']
        # "PROJECT:SUITE / TEST" here; the project alone, or PROJECT.TEST, is the name of the junit suite
        project = name.partition(':')[0].partition(' / ')[0]
        label = f'{build}: {name.rpartition(" / ")[2]}'
        cases = suites.get(f'{project}.{name}') or suites.get(f'{project}.{name.rpartition(" / ")[2]}') or []
        for case, result, text in cases:
            count.add(f'{label}: {case}', result, text)
        if test['result'] in BAD:
            if not any(result == 'failed' for _, result, _ in cases):
                count.add(f'{label} ({test["result"].lower()})', 'failed')
        elif not cases:
            count.add(label, 'skipped' if test['result'] == 'SKIP' else 'passed')


def main():
    count = Count()
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        result, _, name = line.partition(' ')
        count.add(name, result)
    for build in sys.argv[2:]:
        count_build(count, build)
    for reason in count.reasons:
        print(f'skipped: {reason}')
    for name in count.failed:
        print(f'FAILED: {name}')
    print(f'{count.passed} passed, {len(count.failed)} failed, {count.skipped} skipped')
    return 1 if count.failed or not count.passed else 0


if __name__ == '__main__':
    sys.exit(main())
