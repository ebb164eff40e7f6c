#!/usr/bin/env bash
# Writes what tests/train/pytorch_files_test.cc goes by: of a small PyramidNet and a small BERT a checkpoint that dptrain has
# trained, weights as PyTorch begins them, and what PyTorch computes with both. All by scripts/convert_pytorch.py.
#
# Usage: tests/golden/pytorch_checkpoints.sh DPTRAIN PYTHON     PYTHON has what scripts/setup_peers.sh installs
#
# pytorch/NAME_ours.safetensors    the weights of a run, as dptrain wrote them
# pytorch/NAME_theirs.safetensors  what from-pytorch --new wrote
# pytorch/NAME_{ours,theirs}.json  what to-pytorch printed of each
set -euo pipefail
dptrain=$(realpath "${1:?pytorch_checkpoints: needs dptrain}")
python=${2:?pytorch_checkpoints: needs a python with torch}
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$root/tests/golden/pytorch
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT

# make NAME MODEL OPTIONS... -- DATASET...
make() {
  local name=$1 model=$2 sets=() yaml=
  shift 2
  while [ "$1" != -- ]; do
    sets+=(--set "$1")
    yaml+=", ${1/=/: }"
    shift
  done
  shift
  local file=$folder/${name}_ours.safetensors
  printf 'model: {name: %s%s}\n%s\ndevices: [cpu:0]\nbatch_size: 16\nlearning_rate: 0.01\noptimizer: adam\nsteps: 20\neval_every: 0\n' \
    "$model" "$yaml" "$1" > "$run/$name.yaml"
  "$dptrain" --config "$run/$name.yaml" --out "$run/$name" --quiet
  cp "$run/$name/checkpoints/step-000020/model.safetensors" "$file"
  "$python" -B "$root/scripts/convert_pytorch.py" to-pytorch "$file" --model "$model" "${sets[@]}" > "$folder/${name}_ours.json"
  file=$folder/${name}_theirs.safetensors
  "$python" -B "$root/scripts/convert_pytorch.py" from-pytorch --new --seed 3 --model "$model" "${sets[@]}" -o "$file" > /dev/null
  "$python" -B "$root/scripts/convert_pytorch.py" to-pytorch "$file" --model "$model" "${sets[@]}" > "$folder/${name}_theirs.json"
}

make pyramidnet pyramidnet alpha=6 depth=1 blocks=1 -- 'dataset: {name: synthetic, samples: 320, shape: [3, 32, 32]}'
make bert bert vocab=64 hidden=16 layers=2 heads=2 seq=16 -- 'dataset: {name: synthetic, samples: 320}'
