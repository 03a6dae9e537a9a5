"""Which tests of h2spec fail in each of its reports: h2spec.py PORT REPORT.xml…"""

import re
import sys
import xml.etree.ElementTree as tree

port, *reports = sys.argv[1:]
all_tests, failing = set(), None
for report in reports:
    failed = set()
    # It writes the bytes of frames as they are, which XML does not allow.
    text = open(report, encoding="utf-8", errors="replace").read()
    text = re.sub("[^\\t\\n\\r\\x20-\\x7e]", "?", text)
    for suite in tree.fromstring(text).iter("testsuite"):
        for case in suite.iter("testcase"):
            name = (case.get("package"), case.get("classname"))
            all_tests.add(name)
            if case.find("failure") is not None or case.find("error") is not None:
                failed.add(name)
    failing = failed if failing is None else failing & failed
for name in sorted(failing):
    print("h2spec", port, *name)
print(f"h2spec {port}: {len(all_tests)} tests, {len(failing)} failed in each of {len(reports)} runs")
assert len(all_tests) > 100, "h2spec has not looked"
sys.exit(bool(failing))
