#!/usr/bin/env bash
# scripts/bench_pipelines.py and bench_sharding.py compare dptrain's strategies with PyTorch's of the same kind and with PyTorch's
# best, and report what they couldn't measure. The figures are made up: stand-ins for dptrain and for PyTorch's Python print them.
#
# Usage: tests/checks/check_bench_beside.sh ROOT
# Prints a sentence for each violation; exits 1 if there is one, 77 without python3.
set -euo pipefail
root=${1:?check_bench_beside: needs the root folder of the tree}
command -v python3 > /dev/null || { echo "python3, which the scripts run in, is not installed"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/torch/bin"
# zero_bubble makes 150 samples/s, fsdp 80, and all others 100.
cat > "$folder/dptrain" << 'END_OF_PROGRAM'
#!/usr/bin/env bash
if [[ $1 == --version ]]; then echo "dptrain made-up"; exit 0; fi
if [[ $* == *--dump-config* ]]; then echo "model: resnet18"; exit 0; fi
speed=100
! grep -q '"zero_bubble"' "$2" || speed=150
! grep -q '"fsdp"' "$2" || speed=80
if ! grep -q model_parallel "$2"; then
  for _ in 1 2 3; do echo "{\"train\": {\"samples_per_s\": $speed}}"; done
  exit 0
fi
grep -q '"stages": \[3, 2, 2, 3\]' "$2" && cut=4 || cut=2
[[ $cut == 2 || $(< "$2") == *interleaved* ]] || exit 70
for _ in 1 2 3; do echo "{\"train\": {\"samples_per_s\": $speed}}"; done
END_OF_PROGRAM
# PyTorch makes 40 samples/s, with gpipe 50, with sharded optimizers 60; compiled it fails.
cat > "$folder/torch/bin/python" << 'END_OF_PROGRAM'
#!/usr/bin/env bash
if [[ $1 == -c ]]; then exit 0; fi
if [[ $* == *--fast* ]]; then echo "no compiler" >&2; exit 1; fi
speed=40
[[ $* != *"--schedule gpipe"* ]] || speed=50
[[ $* != *"--ranks 2 --sharding optimizer"* ]] || speed=60
echo "{\"peer\": \"pytorch made-up\", \"samples_per_s\": $speed, \"memory_mb\": 10, \"start_mb\": 1}"
END_OF_PROGRAM
chmod +x "$folder/dptrain" "$folder/torch/bin/python"

bad=0
# measured SCRIPT ARGUMENTS: the script must write its report.
measured() {
  python3 -B "$root/scripts/$1" --environments "$folder" --binary "$folder/dptrain" --rounds 1 --disturbed 1 -o "$folder/report" \
    "${@:2}" > "$folder/out" 2> "$folder/err" || { echo "scripts/$1 ended with $?: $(tail -n 1 "$folder/err")"; bad=1; }
}
# row TEXT: the table must contain the text.
row() {
  grep -qF "$1" "$folder/report.md" || { echo "the report has no '$1', but $(grep -F '| `' "$folder/report.md")"; bad=1; }
}
measured bench_pipelines.py --micro-batches 4
row '| `gpipe` | 100 | 50 | - | 2.00x | 2.00x |'
row '| `1f1b` | 100 | 40 | - | 2.50x | 2.00x |'
row '| `zero_bubble` | 150 | 40 | - | 3.75x | 3.00x |'
row '| `interleaved` | 100 | 40 | - | 2.50x | 2.00x |'
row 'Not measured: gpipe compiled: failed: exit code 1: no compiler'
measured bench_sharding.py --models bert
row '## bert, batch 8, adam'
row '| `ddp` | 100 | 40 | - | 2.50x | 1.67x |'
row '| `ddp, shard_optimizer` | 100 | 60 | - | 1.67x | 1.67x |'
row '| `fsdp` | 80 | 40 | - | 2.00x | 1.33x |'
row '| `fsdp, reshard_after_forward: false` | 80 | 40 | - | 2.00x | 1.33x |'
exit "$bad"
