#!/usr/bin/env bash
# scripts/bench_faults.py injects faults into runs and sees them recover. It writes what it prints, and reports a run that is wrong.
#
# Usage: tests/checks/check_bench_faults.sh ROOT BUILD_FOLDER
# Prints a sentence for each violation; exits 1 if there is one, 77 if this machine can't have the hosts. With the variable
# DPTRAIN_NEEDS_HOSTS set, their absence is a violation.
set -euo pipefail
root=${1:?check_bench_faults: needs the root folder of the tree} build=${2:?check_bench_faults: needs the build folder}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# shellcheck source=tests/checks/hosts_needed.sh
source "$root/tests/checks/hosts_needed.sh"
needs_hosts bench_faults.py "$root" "$folder"

# Other tests run at the same time, so times may exceed those of an idle machine. The check asserts only that everything is
# reported.
bench() {
  python3 -B "$root/scripts/bench_faults.py" --without-peers --trials 1 --binary "$build/dptrain" "$@" > "$folder/out" 2> "$folder/err"
}
bench --faults kill_store,kill_on_host --steps 300 -o "$folder/faults" || {
  echo "scripts/bench_faults.py is to end with 0, but said: $(tail -n 1 "$folder/err")"
  exit 1
}

PYTHONPATH=$root/scripts:$root/tests/checks python3 -B - "$folder" << 'END_OF_PYTHON'
import argparse
import json
import pathlib
import sys

import bench_faults
from expectations import end, expect, expect_lines

folder = pathlib.Path(sys.argv[1])
report = json.loads((folder / "faults.json").read_text())
printed = [json.loads(line) for line in (folder / "out").read_text().splitlines()]
expect([one["fault"] for one in printed] == ["kill_store", "kill_on_host"], f"it tried {printed}")
expect([dict(fault=result["fault"], contestant=result["contestant"], **one) for result in report["results"] for one in result["trials"]] == printed,
       "what it prints is not what -o writes")
for one in printed:
    expect(one["left"] == 0 and one["resumed"] and one["over_s"] is not None, f"a trial is amiss: {one}")
whole = dict(printed[0], exit=75, begun=True, records=3, causes=1, detected_s=0.2, left=0, resumed=True, gone_s=0.3, over_s=1)
for change, said in (({}, []), (dict(over_s=None), ["hung"]), (dict(left=2), ["left a process"]), (dict(exit=137), ["exited with code 137"]),
                     (dict(resumed=False), ["did not go on to the same weights"]), (dict(detected_s=1.5), ["knew after 1.5 s"]),
                     (dict(causes=2), ["told of several causes"]), (dict(records=0, detected_s=None), ["left no record"]),
                     (dict(exit=137, begun=False, records=0, detected_s=None), ["exited with code 137"])):
    found = list(bench_faults.defects("kill_store", {**whole, **change}))
    expect(found == said, f"of {change} it says {found}")
# The fault happens before all processes of several hosts have joined.
for change in (dict(exit=143, begun=False, records=0, detected_s=None), dict(exit=69, begun=False, detected_s=60)):
    found = list(bench_faults.defects("cut", {**whole, **change}))
    expect(found == [], f"of {change} in a cut it says {found}")
expect_lines((folder / "faults.md").read_text(),
             ("| kill -9 of a worker, the server or the scheduler, key-value store | dptrain | 1 |",
              "| kill -9 of a process, two hosts | dptrain | 1 |"))
# Trials that always end before their fault must not be repeated forever.
bench_faults.Dptrain, bench_faults.trial = (lambda *_: argparse.Namespace(seconds=1)), (lambda *_: None)
try:
    bench_faults.measure(argparse.Namespace(faults={"kill": 1}, seed=1, without_peers=True), "", folder)
except SystemExit as end_of_it:
    expect("dptrain has ended by itself 11 times" in str(end_of_it), f"of trials in vain it says {end_of_it}")
for faults, counts in (("kill=300,stop", dict(kill=300, stop=10)), ("kill,kil", "'kil': expected one of kill, "),
                       ("kill=", "'kill=': expected a number of trials from 1 on, got ''"), ("stop=0", "got '0'"), ("stop=-1", "got '-1'")):
    try:
        found = bench_faults.trials_by_fault(faults, 10)
    except ValueError as wrong:
        found = counts if isinstance(counts, str) and counts in str(wrong) else str(wrong)
    expect(found == counts, f"of --faults {faults} it makes {found}")
sys.argv = ["/somewhere/scripts/bench_faults.py", "--environments", "/home/me", "--faults", "kill=2,stop"]
expect(bench_faults.invocation() == "scripts/bench_faults.py --environments FOLDER --faults kill=2,stop",
       f"it says that it was called as {bench_faults.invocation()}")
end("scripts/bench_faults.py")
END_OF_PYTHON
