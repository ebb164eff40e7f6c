#!/usr/bin/env bash
# From a fresh checkout to a trained network: installs what is missing, builds, and trains LeNet on the digits in datasets/ with two
# CPU workers. It may be run again, and then replaces its own earlier results.
#
# Usage: scripts/quickstart.sh [--seeds 0,1,2] [--no-setup]
#   --seeds      one run for each seed, in runs/quickstart-seed<N>; by default one run, in runs/quickstart
#   --no-setup   install nothing
#
# Exit codes: 0 trained, 64 usage, otherwise that of the step that failed.
set -euo pipefail

fail() {
  echo "quickstart: $2" >&2
  exit "$1"
}

several=false
seeds=
setup=true
while (($# > 0)); do
  case $1 in
    --seeds)
      (($# >= 2)) || fail 64 "--seeds needs numbers, such as 0,1,2"
      seeds=$2
      several=true
      shift
      ;;
    --seeds=*)
      seeds=${1#*=}
      several=true
      ;;
    --no-setup) setup=false ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail 64 "unknown argument '$1'; there are --seeds and --no-setup" ;;
  esac
  [[ $several == false || $seeds =~ ^[0-9]+(,[0-9]+)*$ ]] || fail 64 "--seeds needs numbers such as 0,1,2, got '$seeds'"
  shift
done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
config=configs/lenet_ddp_2cpu.yaml
[[ $setup == false ]] || "$root/scripts/setup.sh"
"$root/scripts/build.sh" --target dptrain

cd "$root"
if [[ $several == false ]]; then
  runs=(runs/quickstart)
  build/dptrain --config "$config" --out "${runs[0]}" --overwrite
else
  runs=()
  for seed in ${seeds//,/ }; do
    runs+=("runs/quickstart-seed$seed")
    build/dptrain --config "$config" --set "seed=$seed" --out "${runs[-1]}" --overwrite
  done
fi

echo
echo "Results: ${runs[*]} in $root; metrics.jsonl has a line for each epoch, and checkpoints/ has the weights."
echo "Next, on one device: build/dptrain --config $config --devices cpu:0 --set strategy=single --out runs/one_device"
echo "And to see every setting and where it comes from: build/dptrain --config $config --dump-config"
