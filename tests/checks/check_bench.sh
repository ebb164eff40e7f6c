#!/usr/bin/env bash
# scripts/bench_speed.py --quick measures dptrain's own rows of LeNet, in every precision, and says what it doesn't measure: its
# peers, which aren't installed where it looks for them.
#
# Usage: tests/checks/check_bench.sh ROOT BUILD_FOLDER
# Prints a sentence for each violation; exits 1 if there is one, 77 without python3.
set -euo pipefail
root=${1:?check_bench: needs the root folder of the tree} build=${2:?check_bench: needs the build folder}
command -v python3 > /dev/null || { echo "python3, which scripts/bench_speed.py runs in, is not installed"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Other tests run beside this one: nothing is too disturbed.
if ! python3 -B "$root/scripts/bench_speed.py" --quick --only lenet --rounds 1 --disturbed 1 --binary "$build/dptrain" \
  --environments "$folder" -o "$folder/speed" > "$folder/out.json" 2> "$folder/err"; then
  echo "scripts/bench_speed.py --quick failed: $(tail -n 1 "$folder/err")"
  exit 1
fi

python3 - "$folder" << 'END_OF_PYTHON'
import json
import pathlib
import sys

folder, bad = pathlib.Path(sys.argv[1]), []


def expect(holds, sentence):
    if not holds:
        bad.append(sentence)


report = json.loads((folder / "out.json").read_text())
expect(report == json.loads((folder / "speed.json").read_text()), "what it prints is not what -o writes")
expect([row["model"] for row in report["rows"]] == ["lenet"], "--only lenet measures something else")
row = report["rows"][0]
expect(set(row["figures"]) == {"fp32", "bf16", "beside a busy core"}, f"figures are of {sorted(row['figures'])}")
for kind, figures in row["figures"].items():
    expect(set(figures) == {"single", "ddp"}, f"of {kind} it has figures of {sorted(figures)}")
    for name, figure in figures.items():
        expect(figure["samples_per_s"] > 0 and figure["memory_mb"] > 0, f"{name} of {kind} is {figure}")
expect(all(ratio is not None and ratio > 0 for ratio in row["ddp_to_single"].values()), f"ddp_to_single is {row['ddp_to_single']}")
expect(row["speed_ratio"]["fp32"] == {"single": None, "ddp": None}, "it has ratios to peers that aren't there")
expect(set(row["absent"].values()) == {"not installed"} and "pytorch fp32" in row["absent"], f"absent are {row['absent']}")
expect("| lenet, batch 256 | fp32 |" in (folder / "speed.md").read_text(), "the document has no row of LeNet in fp32")
for sentence in bad:
    print(f"scripts/bench_speed.py --quick: {sentence}")
sys.exit(bool(bad))
END_OF_PYTHON
