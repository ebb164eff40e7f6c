#!/usr/bin/env bash
# scripts/bench_speed.py --quick measures dptrain's own rows of LeNet in every precision, beside stand-ins for peers that only print
# figures. It reports which peers it tried again, and which it doesn't measure because they fail twice in a row or aren't installed.
#
# Usage: tests/checks/check_bench.sh ROOT BUILD_FOLDER
# Prints a sentence for each violation; exits 1 if there is one, 77 without python3.
set -euo pipefail
root=${1:?check_bench: needs the root folder of the tree} build=${2:?check_bench: needs the build folder}
command -v python3 > /dev/null || { echo "python3, which scripts/bench_speed.py runs in, is not installed"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# This program takes the place of PyTorch. It fails the first time compiled in fp32, from the second time on as two processes in
# bf16, and always as two processes in fp32.
mkdir -p "$folder/torch/bin"
cat > "$folder/torch/bin/python" << END
#!/usr/bin/env bash
fail() { echo "aborted" >&2; exit 134; }
case "\$*" in
  "-c "*) exit ;;
  *"fp32 --ranks"*) fail ;;
  *"bf16 --ranks"*) [[ ! -e "$folder/measured" ]] || fail; touch "$folder/measured" ;;
  *"fp32 --fast"*) [[ -e "$folder/failed" ]] || { touch "$folder/failed"; fail; } ;;
esac
echo '{"samples_per_s": 100, "memory_mb": 50, "start_mb": 10, "peer": "PyTorch in name"}'
END
chmod +x "$folder/torch/bin/python"
# Other tests run at the same time, so no measurement counts as too disturbed.
if ! python3 -B "$root/scripts/bench_speed.py" --quick --only lenet --rounds 2 --disturbed 1 --binary "$build/dptrain" \
  --environments "$folder" -o "$folder/speed" > "$folder/out.json" 2> "$folder/err"; then
  echo "scripts/bench_speed.py --quick failed: $(tail -n 1 "$folder/err")"
  exit 1
fi

PYTHONPATH=$root/scripts:$root/tests/checks python3 -B - "$folder" << 'END_OF_PYTHON'
import argparse
import contextlib
import io
import json
import pathlib
import sys

import bench_speed
from bench.cases import CASES, PEERS
from bench.contestants import contestants
from expectations import end, expect, expect_lines

folder = pathlib.Path(sys.argv[1])
report = json.loads((folder / "out.json").read_text())
expect(report == json.loads((folder / "speed.json").read_text()), "what it prints is not what -o writes")
expect([row["model"] for row in report["rows"]] == ["lenet"], "--only lenet measures something else")
row = report["rows"][0]
expect(set(row["figures"]) == {"fp32", "bf16", "beside a busy core"}, f"figures are of {sorted(row['figures'])}")
for kind, figures in row["figures"].items():
    peers = set() if kind == "beside a busy core" else {"pytorch", "pytorch_fast"}
    expect(set(figures) == {"single", "ddp"} | peers, f"of {kind} it has figures of {sorted(figures)}")
    for name, figure in figures.items():
        expect(figure["samples_per_s"] > 0 and figure["memory_mb"] > 0, f"{name} of {kind} is {figure}")
expect(all(ratio is not None and ratio > 0 for ratio in row["ddp_to_single"].values()), f"ddp_to_single is {row['ddp_to_single']}")
for name, ratio in row["speed_ratio"]["fp32"].items():
    fastest = max(measured[f"{name} fp32"]["samples_per_s"] for measured in row["rounds"]) / 100
    expect(0 < ratio <= fastest + 0.001, f"{name} is at most {fastest} times as fast as the peers, but its ratio is {ratio}")
failed = "failed: exit code 134: aborted"
expect(row["absent"] == {"pytorch_ddp fp32": failed + "; tried again", "pytorch_ddp bf16": failed + "; tried again",
                         "mxnet_1 fp32": "not installed", "mxnet_2 fp32": "not installed"}, f"absent are {row['absent']}")
again = [{name: one["tried_again"] for name, one in measured.items() if "tried_again" in one} for measured in row["rounds"]]
expect(again == [{"pytorch_fast fp32": failed}, {}], f"tried again are {again}")
expect_lines((folder / "speed.md").read_text(),
             ("| lenet, batch 256 | fp32 |", f"- pytorch_ddp bf16 of lenet: {failed}; tried again",
              f"- pytorch_fast fp32 of lenet: tried again in 1 of 2 rounds: {failed}"))
# Precisions in which peers take too long can be left out; dptrain's rows are measured all the same.
fp32_peers = contestants("lenet", CASES["lenet"], argparse.Namespace(peers=PEERS, peer_precisions=["fp32"]))
expect({name for name, precision, _ in fp32_peers if precision == "bf16"} == {"single", "ddp"}, f"it measures {sorted(fp32_peers)}")
expect({name for name, precision, _ in fp32_peers if precision == "fp32"} == {"single", "ddp", *PEERS}, f"it measures {sorted(fp32_peers)}")
expect("- peers in bf16: left out by --peer-precisions" in bench_speed.document(dict(report, peer_precisions=["fp32"])),
       "precisions that are left out aren't told of")
# If other programs always disturb a measurement, the other models' figures are kept.
bench_speed.contestants = lambda *_: {("single", "fp32", False): lambda: dict(samples_per_s=1)}
with contextlib.redirect_stderr(io.StringIO()):
    lacking = bench_speed.measure("lenet", argparse.Namespace(rounds=2, disturbed=-1))
expect(lacking == ([], ["lenet: other processes disturbed 6 of 6 rounds"]), f"of a machine that is never quiet it says {lacking}")
document = bench_speed.document(dict(report, lacks=lacking[1]))
expect("- lenet: other processes disturbed 6 of 6 rounds" in document, "what a report lacks isn't told of")
end("scripts/bench_speed.py --quick")
END_OF_PYTHON
