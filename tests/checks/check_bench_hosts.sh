#!/usr/bin/env bash
# scripts/bench_hosts.py --quick measures all strategies over two slowed hosts, beside a stand-in for a peer that only prints
# figures. It writes what it prints, and with --assert it exits with code 1 if that peer is too fast.
#
# Usage: tests/checks/check_bench_hosts.sh ROOT BUILD_FOLDER
# Prints a sentence for each violation; exits 1 if there is one, 77 if this machine can't have the hosts. With the variable
# DPTRAIN_NEEDS_HOSTS set, their absence is a violation.
set -euo pipefail
root=${1:?check_bench_hosts: needs the root folder of the tree} build=${2:?check_bench_hosts: needs the build folder}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# shellcheck source=tests/checks/hosts_needed.sh
source "$root/tests/checks/hosts_needed.sh"
needs_hosts bench_hosts.py "$root" "$folder"

# This program takes the place of PyTorch, and makes a million steps per second.
mkdir -p "$folder/torch/bin"
cat > "$folder/torch/bin/python" << END
#!/usr/bin/env bash
echo '{"samples_per_s": 256e6, "peer": "PyTorch in name"}'
END
chmod +x "$folder/torch/bin/python"

# Other tests run at the same time, so no measurement counts as too disturbed.
status=0
python3 -B "$root/scripts/bench_hosts.py" --quick --models lenet --rates 1gbit --rounds 1 --disturbed 1 --binary "$build/dptrain" \
  --environments "$folder" --assert -o "$folder/hosts" > "$folder/out" 2> "$folder/err" || status=$?
said=$(tail -n 1 "$folder/err")
if ((status != 1)) || [[ $said != *"ddp must be 1.5 times as fast as PyTorch's, but was only: lenet 0.00x" ]]; then
  echo "scripts/bench_hosts.py --quick --assert is to exit 1 beside a peer that is faster, but exited $status and said: $said"
  exit 1
fi

PYTHONPATH=$root/scripts:$root/tests/checks python3 -B - "$folder" << 'END_OF_PYTHON'
import json
import pathlib
import sys

import bench_hosts
from expectations import end, expect, expect_lines

folder = pathlib.Path(sys.argv[1])
report = json.loads((folder / "out").read_text())
expect(report == json.loads((folder / "hosts.json").read_text()), "what it prints is not what -o writes")
(result,) = report["results"]
expect((result["model"], result["rate"], len(result["rounds"])) == ("lenet", "1gbit", 1), f"it measured {result}")
ways = result["rounds"][0]
ways["pytorch ddp, gloo"]["steps_per_s"] /= 1e6
expect(list(bench_hosts.below_bar(report["results"])) == [], "a step a second is too fast a peer")
expect(ways.pop("pytorch ddp, gloo")["steps_per_s"] == 1, "256 samples aren't one step")
expect(set(ways) == {"ddp", "ddp, no overlap", "ddp, next_forward", "ddp, next_forward, bf16", "ddp, bf16", "ddp, two_bit", "ddp, powersgd",
                     "kvstore, dist_sync", "local_sgd", "local_sgd, powersgd"}, f"ways are {sorted(ways)}")
for name, way in ways.items():
    expect(way["steps_per_s"] > 0 and 0 <= way["exposed_comm"] <= 1, f"{name} is {way}")
sent = {name: way["bytes_per_step"] for name, way in ways.items()}
expect(sent["ddp, bf16"] * 2 == sent["ddp"] == sent["ddp, next_forward"] > 10 * sent["ddp, powersgd"] > 0, f"bytes a step are {sent}")
expect_lines((folder / "hosts.md").read_text(),
             ("## lenet, batch 256, 1gbit", "| pytorch ddp, gloo | 1000000.00 (1000000.00 to 1000000.00) |",
              "PyTorch: PyTorch in name. 1 rounds"))
end("scripts/bench_hosts.py --quick")
END_OF_PYTHON
