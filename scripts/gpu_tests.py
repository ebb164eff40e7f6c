#!/usr/bin/env python3
# Usage: scripts/gpu_tests.py test|sanitize --programs DIR --result FILE [--limit-s 540] [--jobs N] [--cuda-only] [--sanitizer PATH] [--logs DIR]
"""Runs GoogleTest programs in shards, several at a time, and writes their results as JSON. scripts/gpu_check.sh calls it.

`test` runs every DIR/*_test, GPU tests first. A GPU test, one with "cuda" in its name, fails if it is skipped, unless it needs more
GPUs than there are. `sanitize` runs the GPU tests of the operators under compute-sanitizer. Tests that a crash, a hang or an error of
the GPU has kept from running are run in a new process. With --logs, the full output of every process in which something failed is
added to DIR/<row>.log. Exits 1 if anything failed or was not run before the limit.
"""
import argparse
import concurrent.futures
import fnmatch
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

CUDA_TESTS = "*cuda*:*Cuda*:*CUDA*:*Nccl*"
PAIR_TESTS = "LongNcclPairTest.*"  # two processes that share the GPU
LONG_TESTS = "Long*:*/Long*"  # suites that use the whole machine for a while: run alone, at the end
# These query libraries or run CPU code that needs no GPU, whatever their names say.
WITHOUT_GPU = "*CudaConvolutionPlans*:*CudaWinogradConvolutions*:*CallTimes*"
# The tools check dptrain's own kernels first, then the memory accesses of the libraries' kernels. API calls that are meant to fail
# aren't reported.
OURS, COMMON = ("kns=dptrain",), ("--show-backtrace", "device", "--print-limit", "20", "--max-connections", "64")
TOOLS = {"racecheck": ["--tool", "racecheck", "--kernel-name", *OURS, *COMMON],
         "synccheck": ["--tool", "synccheck", "--kernel-name", *OURS, *COMMON],
         "memcheck": ["--tool", "memcheck", "--report-api-errors", "no", "--kernel-name", *OURS, *COMMON],
         "memcheck of libraries": ["--tool", "memcheck", "--report-api-errors", "no", "--kernel-name-exclude", *OURS, *COMMON]}
RUNNING = set()  # running programs
LINES = 8  # lines of a failure in the results
SILENT_S = 90  # a program that prints nothing for this long hangs; it reports each test that begins and ends
SILENT_ALONE_S = 600
RESTARTS = 8  # of a shard's process
# Errors after which the GPU does nothing more for the process.
STICKY = re.compile(r"illegal (memory access|address|instruction)|misaligned address|launch failure|launch timed out|device-side assert|"
                    r"invalid (program counter|address space)|hardware stack error|ECC error|EXECUTION_FAILED|"
                    r"not supported on global/shared address space|context is destroyed|"
                    r"cudaError(IllegalAddress|MisalignedAddress|LaunchFailure|LaunchTimeout|IllegalInstruction|Assert|InvalidAddressSpace|"
                    r"InvalidPc|HardwareStackError|ECCUncorrectable|ContextIsDestroyed)", re.I)
# Examples for MORE_GPUS: "needs 2 GPUs, there are 1", "each rank needs a GPU of its own, of which there are 1".
MPI = re.compile(r"\bMPI\b|mpirun")  # MPI needn't be installed on a machine with a GPU
MORE_GPUS = re.compile(r"needs .*GPUs?\b.*there (?:is|are) [1-9]")


class Unlisted(Exception):
    """A program failed to list its tests."""


def listed(program, test_filter):
    """The tests that the filter selects."""
    try:
        done = subprocess.run([program, "--gtest_list_tests", "--gtest_filter=" + test_filter], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        raise Unlisted("did not list its tests within 60 s") from None
    if done.returncode != 0:
        raise Unlisted(f"could not list its tests: {done.stderr.strip()}")
    names, suite = [], ""
    for line in done.stdout.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    return names


def first_lines(text):
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    return lines[:LINES]


class Shard:
    """Tests of a program that run in one process, or in more if a process ends early."""

    def __init__(self, program, tests, phase="", tool=None, prefix=(), logs=None, silent_s=SILENT_S):
        self.program, self.tests, self.tool, self.prefix = program, tests, tool, list(prefix)
        self.logs, self.silent_s = logs, math.inf if tool else silent_s
        self.row = f"{tool} {program.name}" if tool else program.name + phase

    def keep(self, said, end):
        """Keeps the full output of a process in which something failed, to find out why."""
        if self.logs is None:
            return
        self.logs.mkdir(parents=True, exist_ok=True)
        with open(self.logs / (re.sub(r"[^A-Za-z0-9]+", "-", self.row).strip("-") + ".log"), "a") as log:
            log.write(f"{said}\n{end}\n\n")

    def run(self, deadline):
        """Runs the shard and returns its figures for the row."""
        start, figures, left = time.monotonic(), dict(passed=0, cuda_passed=0, not_run=0, failures=[], skips=[]), self.tests
        for _ in range(RESTARTS):
            if not left or deadline - time.monotonic() < 1:
                break
            try:
                part, left = self.run_process(left, deadline)
            except Exception as error:  # noqa: BLE001  one shard's trouble is not to lose the others' results
                part, left = dict(failures=[dict(test=self.program.name, lines=[f"{type(error).__name__}: {error}"])]), []
            for key, value in part.items():
                figures[key] = figures[key] + value if key in figures else value
        figures["not_run"] += len(left)
        figures["seconds"] = round(time.monotonic() - start, 1)
        return figures

    def run_process(self, tests, deadline):
        """Figures of the tests that have run, and the remaining tests."""
        with tempfile.TemporaryDirectory() as folder:
            report, flags, output = (pathlib.Path(folder) / name for name in ("report.json", "flags", "output"))
            flags.write_text(f"--gtest_filter={':'.join(tests)}\n--gtest_output=json:{report}\n")
            with open(output, "wb") as out:
                process = subprocess.Popen(self.prefix + [str(self.program), f"--gtest_flagfile={flags}"], stdout=out,
                                           stderr=subprocess.STDOUT, cwd=folder, start_new_session=True,
                                           env=dict(os.environ, OMP_WAIT_POLICY="passive"))
            RUNNING.add(process)
            try:
                end = self.wait_for(process, output, deadline)
            finally:
                RUNNING.discard(process)
            said = output.read_text(errors="replace")
            has_report = report.exists() and report.stat().st_size and process.returncode != -signal.SIGKILL
            if has_report:
                figures, left = from_report(json.loads(report.read_text()), said, tests)
            else:
                figures, left = from_output(said, end, tests)
        if self.tool:
            figures.update(sanitizer_said(said, complete=has_report))
        elif has_report and process.returncode != 0 and not figures["failures"]:
            figures["failures"].append(dict(test=self.program.name, lines=[f"{end} after its tests"]))
        if figures["failures"] or figures.get("errors"):
            self.keep(said, end)
        return figures, left

    def wait_for(self, process, output, deadline):
        """How the process ended. It is killed at the deadline, or if it has printed nothing for long."""
        start = heard = time.monotonic()
        size = 0
        while process.poll() is None:
            now, written = time.monotonic(), output.stat().st_size
            if written != size:
                size, heard = written, now
            if now > deadline or now - heard > self.silent_s:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"killed after {now - start:.0f} s" + (f", silent for {now - heard:.0f} s" if now <= deadline else "")
            time.sleep(0.02)
        return f"exited with code {process.returncode}"


def is_cuda(name):
    """Whether a test is a GPU test, which must not be skipped if there is a GPU."""
    return any(fnmatch.fnmatchcase(name, one) for one in CUDA_TESTS.split(":"))


def ran_on_gpu(name):
    return is_cuda(name) and not any(fnmatch.fnmatchcase(name, one) for one in WITHOUT_GPU.split(":"))


def skip_reason(name, said):
    """The lines between a skipped test's begin and end, without the place in the source."""
    block = re.search(r"\[ RUN      \] " + re.escape(name) + r"\n(.*?)\[  SKIPPED \]", said, re.S)
    lines = [line for line in (block[1] if block else "").splitlines() if line.strip() and not line.endswith(": Skipped")]
    return " ".join(line.strip() for line in lines)


def add_skip(figures, name, said):
    reason = skip_reason(name, said)
    if (is_cuda(name) or reason.startswith("no row ")) and not MORE_GPUS.search(reason) and not MPI.search(reason):
        figures["failures"].append(dict(test=name, lines=["skipped: " + reason]))
    else:
        figures["skips"].append(dict(test=name, reason=reason))


def from_report(report, said, tests):
    """Results of a program that ended by itself, and the tests after an error that the GPU doesn't recover from."""
    figures = dict(passed=0, cuda_passed=0, failures=[], skips=[])
    for test in (test for suite in report["testsuites"] for test in suite["testsuite"]):
        name = f"{test['classname']}.{test['name']}"
        if test.get("failures"):
            failure = "\n".join(one["failure"] for one in test["failures"])
            figures["failures"].append(dict(test=name, lines=first_lines(failure)))
            if STICKY.search(failure) and name in tests:
                return figures, tests[tests.index(name) + 1:]
        elif test["result"] == "SKIPPED":
            add_skip(figures, name, said)
        elif test["result"] == "COMPLETED":
            figures["passed"] += 1
            figures["cuda_passed"] += ran_on_gpu(name)
    return figures, []


def from_output(said, end, tests):
    """Results of a program that wrote no report: the tests that ended, the test in progress, and the tests that never began."""
    begun = re.findall(r"^\[ RUN      \] (\S+)", said, re.M)
    passed = re.findall(r"^\[       OK \] (\S+)", said, re.M)
    failed = [name for name in re.findall(r"^\[  FAILED  \] ([^\s,]+)", said, re.M) if name in begun[:-1]]
    last = said[said.rfind("[ RUN      ]"):] if begun else said
    figures = dict(passed=len(passed), cuda_passed=sum(map(ran_on_gpu, passed)), skips=[],
                   failures=[dict(test=name, lines=["failed before the program ended"]) for name in dict.fromkeys(failed)])
    for name in re.findall(r"^\[  SKIPPED \] (\S+)", said, re.M):
        add_skip(figures, name, said)
    if begun and begun[-1] in passed:
        figures["failures"].append(dict(test="after " + begun[-1], lines=[end]))
    else:
        figures["failures"].append(dict(test=begun[-1] if begun else "no test", lines=[end] + first_lines(last)[1 if begun else 0:]))
    if begun and begun[-1] in tests:
        return figures, tests[tests.index(begun[-1]) + 1:]
    return dict(figures, not_run=len(tests) - len(begun)), []


# Lines of the tool's findings, and of errors that kept it from checking, begin like this.
FINDING = re.compile(r"^=========\s+(Error|Warning|Invalid|Barrier|Uninitialized|Program hit|Fatal|Internal|Address|Misaligned|Divergent)", re.I)
BLIND = re.compile(r"internal|overflow|not supported|unable|could not|failed to", re.I)


def sanitizer_said(said, complete):
    lines = [line for line in said.splitlines() if line.startswith("=========")]
    counts = [int(n) for line in lines for n in re.findall(r"SUMMARY: (\d+) (?:error|hazard)", line)]
    others = [line for line in lines if "SUMMARY" not in line and "COMPUTE-SANITIZER" not in line and line.strip("= ")]
    # Without the frames of each report, more reports fit.
    reports = [line for line in others if FINDING.match(line)] or others
    blind = [line for line in others if BLIND.search(line)]
    if counts:
        errors = sum(counts) or len(blind)
        return dict(errors=errors, reports=reports[:LINES] if errors else [])
    if complete or reports:
        return dict(errors=1, reports=["compute-sanitizer printed no summary"] + (reports or said.strip().splitlines())[:LINES])
    return dict(errors=0, reports=[])


def added(rows, shard, figures):
    row = rows.setdefault(shard.row, dict(passed=0, cuda_passed=0, not_run=0, seconds=0.0, failures=[], skips=[]))
    for key, value in figures.items():
        row[key] = row[key] + value if key in row else value
    row["seconds"] = round(row["seconds"], 1)


def shards_of(programs, test_filter, jobs, rows, **options):
    """Makes the shards. A program that can't list its tests gets a failed row of its own; the others go on."""
    shards = []
    for program in programs:
        try:
            tests = listed(program, test_filter)
        except Unlisted as error:
            shard, failure = Shard(program, [], **options), dict(test="no test", lines=[str(error)])
            added(rows, shard, dict(failures=[failure]))
            told(shard.row, rows[shard.row])
            continue
        count = min(jobs, math.ceil(len(tests) / 8))
        shards += [Shard(program, tests[i::count], **options) for i in range(count)]
    return shards


def told(name, row):
    bad = row["failures"] or row["not_run"] or row.get("errors")
    print(f"  {'FAILED' if bad else 'ok':7} {name}: {row['passed']} passed ({row['cuda_passed']} on a GPU), "
          f"{len(row['failures'])} failed, {len(row['skips'])} skipped, {row['not_run']} not run"
          + (f", {row['errors']} errors" if "errors" in row else ""), flush=True)
    for failure in row["failures"][:10]:
        print("          " + failure["test"] + ": " + " | ".join(failure["lines"]), flush=True)
    for line in row.get("reports", []):
        print("          " + line, flush=True)


def phases_of(arguments, programs, rows):
    """Yields (jobs, shards, deadline) of each phase in order, the most important first."""
    now = time.monotonic()
    deadline = now + arguments.limit_s - 5

    def shards(programs, test_filter, jobs, until=deadline, **options):
        if time.monotonic() < deadline:
            return jobs, shards_of(programs, test_filter, jobs, rows, logs=arguments.logs, **options), until
        # Without time left, even listing the tests would take too long.
        left = Shard(pathlib.Path("all programs"), [], options.get("phase", ""), options.get("tool"))
        added(rows, left, dict(failures=[dict(test="any test", lines=["not started before the limit"])]))
        told(left.row, rows[left.row])
        return jobs, [], until

    if arguments.stage == "sanitize":
        operators = [program for program in programs if program.name == "ops_test"]
        share = (deadline - now) / len(TOOLS)  # so that no tool takes the others' time
        for number, (tool, options) in enumerate(TOOLS.items(), 1):
            prefix = [arguments.sanitizer, *options, "--error-exitcode", "86"]
            yield shards(operators, f"{CUDA_TESTS}-{WITHOUT_GPU}", arguments.jobs, now + number * share, tool=tool, prefix=prefix)
        return
    yield shards(programs, f"{CUDA_TESTS}-{LONG_TESTS}", arguments.jobs)
    comm = [program for program in programs if program.name == "comm_test"]
    yield shards(comm, PAIR_TESTS, 1, phase=" (two processes)", silent_s=SILENT_ALONE_S)
    if arguments.cuda_only:
        return
    yield shards(programs, f"*-{CUDA_TESTS}:{LONG_TESTS}", arguments.jobs, phase=" (no GPU)")
    yield shards(programs, f"{LONG_TESTS}-{PAIR_TESTS}", 1, phase=" (alone)", silent_s=SILENT_ALONE_S)


def end_all(number, _):
    """Ends all programs, which are in sessions of their own, so that the GPU is free when this script is ended."""
    for process in list(RUNNING):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os._exit(128 + number)


def main():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_all)
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("stage", choices=("test", "sanitize"))
    p.add_argument("--programs", required=True, type=pathlib.Path)
    p.add_argument("--result", required=True, type=pathlib.Path)
    p.add_argument("--limit-s", type=float, default=540)
    p.add_argument("--jobs", type=int, default=max(1, min(8, len(os.sched_getaffinity(0)) // 2)))
    p.add_argument("--cuda-only", action="store_true", help="of `test` those tests alone that use a GPU")
    p.add_argument("--sanitizer", default="compute-sanitizer")
    p.add_argument("--logs", type=pathlib.Path, help="for all that failing processes said; by default their first lines are kept")
    a = p.parse_args()
    start, rows = time.monotonic(), {}

    def write():
        on_gpu = sum(row["cuda_passed"] for row in rows.values())
        passed = on_gpu > 0 and not any(row["failures"] or row["not_run"] or row.get("errors") for row in rows.values())
        # The file is replaced as a whole, because this program may be ended at any time.
        part = a.result.with_suffix(".part")
        part.write_text(json.dumps(dict(stage=a.stage, passed=passed, seconds=round(time.monotonic() - start, 1), rows=rows)))
        part.replace(a.result)
        return passed, on_gpu

    for jobs, shards, deadline in phases_of(a, sorted(a.programs.resolve().glob("*_test")), rows):
        write()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            running = {pool.submit(shard.run, deadline): shard for shard in shards}
            for done in concurrent.futures.as_completed(running):
                added(rows, running[done], done.result())
                write()  # ending this program loses only the test programs in progress
        for name in dict.fromkeys(shard.row for shard in shards):
            told(name, rows[name])
    passed, on_gpu = write()
    if on_gpu == 0:
        print("  FAILED  no GPU test ran", flush=True)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
