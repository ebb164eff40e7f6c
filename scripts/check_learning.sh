#!/usr/bin/env bash
# Runs the example configurations in full on CPU workers and checks what they learn. Takes about 13 minutes on two cores.
#   LeNet        97 % on the digits, for three seeds, in under 60 seconds of training each; also while another process keeps one core busy
#   ResNet-18    on the first 6,000 images of Fashion-MNIST. One CPU worker: a training loss under 0.7 in the third epoch, as the mean
#                over five seeds, because the loss of one seed has a deviation of 0.06. Two CPU workers: a loss that falls every epoch
#   PyramidNet   a small one: over 90 % of its training samples
#   BERT         a small one on the King James Bible: a loss of masked tokens from over 8 to under 5.8, the mean of steps 291 to 300
#
# Usage: scripts/check_learning.sh [BINARY]      build/dptrain by default; needs the package dataset-fashion-mnist
# Prints one line per run; exits 1 if one of them falls short.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
binary=${1:-$root/build/dptrain}
[[ -x $binary ]] || { echo "check_learning: $binary: expected the program dptrain; build it with scripts/build.sh, or name another path" >&2; exit 64; }
runs=$(mktemp -d)
spinner=
trap '[[ -z $spinner ]] || kill "$spinner" 2> /dev/null; rm -rf "$runs"' EXIT
failed=0

# field KEY LINE: a number from a line of metrics.jsonl, by the last part of its dotted name within train or test.
train() { sed -n "s/.*\"train\":{[^}]*\"$1\":\([-0-9.e+]*\).*/\1/p"; }
test_accuracy() { sed -n 's/.*"test":{[^}]*"accuracy":\([-0-9.e+]*\).*/\1/p'; }
holds() { awk "BEGIN {exit !($1)}"; }

verdict() {
  if holds "$2"; then echo "ok      $1"; else
    echo "FAILED  $1 (expected $3)"
    failed=1
  fi
}

lenet() {
  local name=$1 seed=$2 accuracy seconds
  "$binary" --config "$root/configs/lenet_ddp_2cpu.yaml" --set "seed=$seed" --out "$runs/$name" --quiet
  accuracy=$(tail -1 "$runs/$name/metrics.jsonl" | test_accuracy)
  seconds=$(train seconds < "$runs/$name/metrics.jsonl" | awk '{sum += $1} END {printf "%.1f", sum}')
  verdict "$name: test accuracy $accuracy, $seconds s of training" "$accuracy >= 0.97 && $seconds < 60" "0.97 in under 60 s"
}

for seed in 0 1 2; do lenet "lenet_ddp_2cpu, seed $seed" "$seed"; done
(while :; do :; done) &
spinner=$!
lenet "lenet_ddp_2cpu, seed 0, beside a process that keeps a core busy" 0
kill "$spinner"
spinner=

# resnet CONFIG DEVICES SEED: the training losses of three epochs.
resnet() {
  "$binary" --config "$root/configs/$1.yaml" --devices "$2" --set "seed=$3" --set dataset.limit=6000 --set epochs=3 \
    --set eval_every=0 --out "$runs/$1-$3" --quiet
  train loss < "$runs/$1-$3/metrics.jsonl" | tr '\n' ' '
}

thirds=
for seed in 0 1 2 3 4; do
  read -r first second third <<< "$(resnet resnet18_1gpu cpu:0 "$seed")"
  echo "        resnet18_1gpu on cpu:0, seed $seed: training loss $first $second $third"
  thirds+="$third "
done
mean=$(awk '{for (i = 1; i <= NF; ++i) sum += $i; print sum / NF}' <<< "$thirds")
verdict "resnet18_1gpu on cpu:0: training loss in epoch 3 $mean, the mean of five seeds" "$mean < 0.7" "under 0.7"
read -r first second third <<< "$(resnet resnet18_2gpu cpu:0-1 0)"
verdict "resnet18_2gpu on cpu:0-1: training loss $first $second $third" "$first > $second && $second > $third" "a loss that falls"

"$binary" --config "$root/configs/pyramidnet_small_1cpu.yaml" --out "$runs/pyramidnet" --quiet
accuracy=$(train accuracy < "$runs/pyramidnet/metrics.jsonl" | sort -g | tail -1)
verdict "pyramidnet_small_1cpu: training accuracy $accuracy" "$accuracy > 0.9" "over 0.9"
"$binary" --config "$root/configs/bert_small_1cpu.yaml" --out "$runs/bert" --quiet
masked() { sed -n 's/.*"mlm_loss":\([0-9.e+-]*\).*/\1/p' "$runs/bert/steps.jsonl" | awk "$1"' {sum += $1; ++count} END {print sum / count}'; }
first=$(masked 'NR == 1')
last=$(masked 'NR > 290')
verdict "bert_small_1cpu: loss of masked tokens $first, then $last" "$first > 8 && $last < 5.8" "under 5.8, from over 8"
exit "$failed"
