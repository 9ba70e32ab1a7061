#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes the linker's version script from the list of intercepted calls: those names, and nothing else."""
import re
import sys

names = re.findall(r"^V?CALL\(.*?[ *](\w+), \(", open(sys.argv[1]).read(), re.M)
print("{\n  global:")
for name in sorted(names):
    print(f"    {name};")
print("  local:\n    *;\n};")
