"""Runs a selection of Kubernetes' e2e suite: what conformance/run and e2e/run share.

The suite's programs are built from Go modules by name, once (./program; Go 1.26, some minutes), unless an e2e.test that is built
already is named. A table beside each command lists its tests: name, group, and how each ended last.
"""
import argparse
import csv
import json
import os
import re
import subprocess
from pathlib import Path

VERSION = "1.37.1"
HERE = Path(__file__).resolve().parent
MARK = re.escape(" [Conformance]")
LONGEST = 100_000  # bytes of one argument; Linux takes 131,072


def parser(description, out):
    """The options of every run."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("kubeconfig", type=Path)
    options.add_argument("--focus", help="the tests whose names match (default: all)")
    options.add_argument("--skip", help="but not those")
    options.add_argument("--procs", type=int, default=2, help="tests at a time; serial ones run alone")
    options.add_argument("--netns", help="the network namespace of the cluster")
    options.add_argument("--e2e-test", type=Path, metavar="PATH", help="an e2e.test that is built; ginkgo and kubectl beside it are taken too")
    options.add_argument("--out", type=Path, default=Path(out), help="where logs and reports go")
    options.add_argument("--record", action="store_true", help="write the outcome to the table")
    return options


def read_table(path):
    """The rows of a table by the name of the test."""
    with open(path, newline="") as table:
        return {row[0]: row[1:] for row in list(csv.reader(table, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]}


def matches(options, name):
    return re.search(options.focus or "", name) and not (options.skip and re.search(options.skip, name))


def plain(name):
    """A patch release may take the mark from a test of the table."""
    return name.replace(" [Conformance]", "")


def run(options, tests, table):
    """Runs the tests, writes the table if that is wanted, prints what did not pass. The exit status: 0 when all passed."""
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").unlink(missing_ok=True)
    start(options, tests, out)
    outcome = list(read_report(out / "report.json"))
    if options.record:
        record(outcome, table)
    ran = {name for name, *_ in outcome}
    outcome += [(name, "not run", 0, "") for name in map(plain, tests) if name not in ran]
    failed = [row for row in outcome if row[1] != "passed"]
    for name, state, seconds, why in failed:
        print(f"{state} after {seconds:.0f} s: {name}\n    {why}")
    print(f"{len(outcome) - len(failed)} of {len(outcome)} passed; logs in {out}")
    return 1 if failed else 0


def program(name, built):
    """The path of a program of the suite, which is built if it is missing."""
    if built and (built.parent / name).exists():
        return built if name == "e2e.test" else built.parent / name
    made = subprocess.run([HERE / "program", name, VERSION], check=True, stdout=subprocess.PIPE, text=True)
    return made.stdout.strip()


def focus(tests):
    """Regular expressions that match the tests, none longer than an argument may be."""
    part, size = [], 0
    for name in tests:
        word = re.escape(name).replace(MARK, f"({MARK})?") + "$"
        if part and size + len(word.encode()) > LONGEST:
            yield "|".join(part)
            part, size = [], 0
        part.append(word)
        size += len(word.encode()) + 1
    yield "|".join(part)


def start(options, tests, out):
    """Runs ginkgo; prints each test as it ends."""
    built = options.e2e_test and options.e2e_test.resolve()
    # ginkgo knows a compiled suite by the end of its name
    compiled = out / "e2e.test"
    compiled.unlink(missing_ok=True)
    compiled.symlink_to(program("e2e.test", built))
    enter = ["nsenter", f"--net=/run/netns/{options.netns}"] if options.netns else []
    ginkgo = [
        program("ginkgo", built), "run", f"--procs={options.procs}", "--timeout=8h", "--no-color", "-v", "--keep-going",
        f"--output-dir={out}", "--json-report=report.json", *(f"--focus={part}" for part in focus(tests)),
    ]
    test = [
        compiled, "--", f"--kubeconfig={options.kubeconfig.resolve()}", "--provider=skeleton",
        f"--kubectl-path={program('kubectl', built)}", f"--num-nodes={options.nodes}", "--disable-log-dump",
    ]
    if not options.nodes:
        test += ["--allowed-not-ready-nodes=-1", "--minStartupPods=-1"]
    words = [str(word) for word in enter + ginkgo + test]
    # the suite talks to the cluster alone, which no proxy leads to
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with open(out / "suite.log", "w") as log, subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=out, env=environment
    ) as running:
        verdict = None
        for line in running.stdout:
            log.write(line)
            if verdict and line.strip():  # the line after a verdict has the name
                print(verdict, line.strip(), flush=True)
                verdict = None
            if re.match(r"^(•|S \[SKIPPED\]) ", line):
                verdict = line.strip()


def read_report(path):
    """The tests that ran: (name, state, seconds, first line of the failure)."""
    for report in json.loads(path.read_text()):
        for spec in report["SpecReports"] or []:
            words = spec.get("Failure", {}).get("Message", "").strip().splitlines()
            # a test that was not selected is skipped without a word
            if spec["LeafNodeType"] != "It" or (spec["State"] in ("skipped", "pending") and not words):
                continue
            name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
            yield plain(name), spec["State"], spec["RunTime"] / 1e9, (words or [""])[0].replace("\t", " ")


def record(outcome, path):
    """Puts the tests that ran into the table's last column; the others stay as they are."""
    states = {name: state for name, state, *_ in outcome}
    rows = read_table(path)
    with open(path) as table:
        header = table.readline()
    with open(path, "w") as table:
        table.write(header)
        for name, (*columns, before) in rows.items():
            table.write("\t".join([name, *columns, states.get(plain(name), before)]) + "\n")
