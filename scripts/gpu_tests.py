#!/usr/bin/env python3
# Usage: scripts/gpu_tests.py test|sanitize --programs DIR --result FILE [--limit-s 540] [--jobs N] [--sanitizer PATH]
"""Runs GoogleTest programs in shards, several at a time, and writes what they said as JSON. scripts/gpu_check.sh calls it.

`test` runs every DIR/*_test. A test of a GPU, one with "cuda" in its name, fails if it is skipped. `sanitize` runs those of the
operators under compute-sanitizer. Exits 1 if anything failed or was not run before the limit.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

CUDA_TESTS = "*cuda*:*Cuda*:*CUDA*"
LONG_TESTS = "Long*"  # suites that take the whole machine for a while: alone, at the end
# Hazards and barriers of our own kernels; memcheck looks at those of the libraries too.
TOOLS = {"memcheck": [], "racecheck": ["--kernel-name", "kns=dptrain"], "synccheck": ["--kernel-name", "kns=dptrain"]}
LINES = 8  # of a failure, in the results
ONE_PROGRAM_S = 300


def listed(program, test_filter):
    """How many tests the filter leaves."""
    done = subprocess.run([program, "--gtest_list_tests", "--gtest_filter=" + test_filter], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"gpu_tests: {program} could not list its tests: {done.stderr.strip()}")
    return sum(line.startswith("  ") for line in done.stdout.splitlines())


def first_lines(text):
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    return lines[:LINES]


class Shard:
    """One run of a program: every `count`-th test of a filter."""

    def __init__(self, program, test_filter, index=0, count=1, tests=0, tool=None, prefix=()):
        self.program, self.filter, self.index, self.count, self.tests = program, test_filter, index, count, tests
        self.tool, self.prefix = tool, list(prefix)
        self.row = f"{tool} {program.name}" if tool else program.name + (" (alone)" if test_filter == LONG_TESTS else "")

    def run(self, deadline):
        """The row's figures of this shard."""
        if deadline - time.monotonic() < 1:
            return dict(not_run=self.tests, seconds=0.0)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            command = self.prefix + [str(self.program), f"--gtest_filter={self.filter}", f"--gtest_output=json:{report}"]
            environment = dict(os.environ, OMP_WAIT_POLICY="passive", GTEST_TOTAL_SHARDS=str(self.count),
                               GTEST_SHARD_INDEX=str(self.index))
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                       env=environment, cwd=folder, start_new_session=True)
            limit = min(ONE_PROGRAM_S if not self.tool else math.inf, deadline - start)
            try:
                said, timed_out = process.communicate(timeout=limit)[0], False
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                said, timed_out = process.communicate()[0], True
            if report.exists() and report.stat().st_size:
                figures = from_report(json.loads(report.read_text()), said)
            else:
                figures = from_output(said, f"killed after {limit:.0f} s" if timed_out else f"ended with {process.returncode}")
        if self.tool and not timed_out:
            figures.update(sanitizer_said(said))
        elif process.returncode != 0 and not figures["failures"]:
            figures["failures"].append(dict(test=self.program.name, lines=[f"ended with {process.returncode} after its tests"]))
        figures["seconds"] = round(time.monotonic() - start, 1)
        return figures


def is_cuda(name):
    return "cuda" in name.lower()


def skip_reason(name, said):
    """What stands between a skipped test's begin and end, less the place in the source."""
    block = re.search(r"\[ RUN      \] " + re.escape(name) + r"\n(.*?)\[  SKIPPED \]", said, re.S)
    lines = [line for line in (block[1] if block else "").splitlines() if line.strip() and not line.endswith(": Skipped")]
    return " ".join(line.strip() for line in lines)


def from_report(report, said):
    figures = dict(passed=0, cuda_passed=0, not_run=0, failures=[], skips=[])
    for test in (test for suite in report["testsuites"] for test in suite["testsuite"]):
        name = f"{test['classname']}.{test['name']}"
        if test.get("failures"):
            figures["failures"].append(dict(test=name, lines=first_lines(test["failures"][0]["failure"])))
        elif test["result"] == "SKIPPED":
            reason = skip_reason(name, said)
            if is_cuda(name) or reason.startswith("no row "):
                figures["failures"].append(dict(test=name, lines=["skipped: " + reason]))
            else:
                figures["skips"].append(dict(test=name, reason=reason))
        elif test["result"] == "COMPLETED":
            figures["passed"] += 1
            figures["cuda_passed"] += is_cuda(name)
    return figures


def from_output(said, end):
    """Of a program that wrote no report: what it had done, the test it was in, and how many it never began."""
    announced = re.search(r"^\[==========\] Running (\d+) test", said, re.M)
    begun = re.findall(r"^\[ RUN      \] (\S+)", said, re.M)
    passed = re.findall(r"^\[       OK \] (\S+)", said, re.M)
    last = said[said.rfind("[ RUN      ]"):] if begun else said
    return dict(passed=len(passed), cuda_passed=sum(map(is_cuda, passed)), skips=[],
                not_run=int(announced[1]) - len(begun) if announced else 0,
                failures=[dict(test=begun[-1] if begun else "no test", lines=[end] + first_lines(last)[1:])])


def sanitizer_said(said):
    lines = [line for line in said.splitlines() if line.startswith("=========")]
    counts = [int(n) for line in lines for n in re.findall(r"SUMMARY: (\d+) (?:error|hazard)", line)]
    reports = [line for line in lines if "SUMMARY" not in line and "COMPUTE-SANITIZER" not in line]
    if not counts:
        return dict(errors=1, reports=["no summary of compute-sanitizer's"] + (reports or said.strip().splitlines())[-LINES:])
    return dict(errors=sum(counts), reports=reports[:LINES] if sum(counts) else [])


def added(rows, shard, figures):
    row = rows.setdefault(shard.row, dict(passed=0, cuda_passed=0, not_run=0, seconds=0.0, failures=[], skips=[]))
    for key, value in figures.items():
        row[key] = row[key] + value if key in row else value
    row["seconds"] = round(row["seconds"], 1)


def shards_of(programs, test_filter, jobs, **options):
    shards = []
    for program in programs:
        tests = listed(program, test_filter)
        count = min(jobs, math.ceil(tests / 8))
        # So many of the program's tests that the sum is right, whichever of them a shard holds.
        shards += [Shard(program, test_filter, i, count, (tests + count - 1 - i) // count, **options) for i in range(count)]
    return shards


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("stage", choices=("test", "sanitize"))
    p.add_argument("--programs", required=True, type=pathlib.Path)
    p.add_argument("--result", required=True, type=pathlib.Path)
    p.add_argument("--limit-s", type=float, default=540)
    p.add_argument("--jobs", type=int, default=max(1, min(8, len(os.sched_getaffinity(0)) // 2)))
    p.add_argument("--sanitizer", default="compute-sanitizer")
    a = p.parse_args()
    start = time.monotonic()
    deadline = start + a.limit_s - 5
    programs = sorted(a.programs.resolve().glob("*_test"))
    if a.stage == "test":
        # Those of a GPU first, should the time not do for all.
        programs.sort(key=lambda program: -listed(program, CUDA_TESTS))
        phases = [(a.jobs, shards_of(programs, "-" + LONG_TESTS, a.jobs)), (1, shards_of(programs, LONG_TESTS, 1))]
    else:
        operators = [program for program in programs if program.name == "ops_test"]
        phases = [(a.jobs, shards_of(operators, CUDA_TESTS, a.jobs, tool=tool,
                                     prefix=[a.sanitizer, "--tool", tool, "--error-exitcode", "86", *options]))
                  for tool, options in TOOLS.items()]
    rows = {}
    for jobs, shards in phases:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for shard, figures in zip(shards, pool.map(lambda shard: shard.run(deadline), shards)):
                added(rows, shard, figures)
        for name in dict.fromkeys(shard.row for shard in shards):
            row = rows[name]
            bad = row["failures"] or row["not_run"] or row.get("errors")
            print(f"  {'FAILED' if bad else 'ok':7} {name}: {row['passed']} passed ({row['cuda_passed']} on a GPU), "
                  f"{len(row['failures'])} failed, {len(row['skips'])} skipped, {row['not_run']} not run"
                  + (f", {row['errors']} errors" if "errors" in row else ""), flush=True)
            for failure in row["failures"][:10]:
                print("          " + failure["test"] + ": " + " | ".join(failure["lines"]), flush=True)
            for line in row.get("reports", []):
                print("          " + line, flush=True)
    on_gpu = sum(row["cuda_passed"] for row in rows.values())
    passed = on_gpu > 0 and not any(row["failures"] or row["not_run"] or row.get("errors") for row in rows.values())
    if on_gpu == 0:
        print("  FAILED  not one test of a GPU ran", flush=True)
    a.result.write_text(json.dumps(dict(stage=a.stage, passed=passed, seconds=round(time.monotonic() - start, 1), rows=rows)))
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
