#!/usr/bin/env bash
# Measures how long dptrain takes from its start through one training step. Each run is one step without an evaluation, timed from
# exec to exit, its checkpoint included. Prints the median and the range of the seconds, and the machine.
#
# Usage: scripts/bench_startup.sh [--runs N] [--config F] [-- flags of dptrain, such as --devices cuda:0]
#   --runs     the number of runs; 11 by default, after one that isn't counted
#   --config   the experiment: a YAML file, or the name of one in configs/; lenet_1cpu by default
# DPTRAIN_BINARY names another binary than build/dptrain.
set -euo pipefail
export LC_ALL=C  # EPOCHREALTIME has a point

fail() {
  echo "bench_startup: $2" >&2
  exit "$1"
}

config=lenet_1cpu
runs=11
flags=()
while (($# > 0)); do
  case $1 in
    --runs | --config)
      if (($# < 2)) || [[ -z $2 || $2 == -* ]]; then fail 64 "$1 needs a value"; fi
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --)
      flags=("${@:2}")
      break
      ;;
    *) fail 64 "unknown argument '$1'; there are --runs and --config, and flags of dptrain go after --" ;;
  esac
  shift
done
[[ $runs =~ ^[1-9][0-9]{0,3}$ ]] || fail 64 "--runs: expected a number from 1 to 9999, got '$runs'"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=${DPTRAIN_BINARY:-$root/build/dptrain}
[[ -x $binary ]] || fail 66 "$binary is missing; scripts/build.sh builds it"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# one_run: makes one run and sets `took` to its microseconds.
one_run() {
  local begun=${EPOCHREALTIME/./} status=0
  "$binary" --config "$config" --set epochs= --set steps=1 --set eval_every=0 "${flags[@]}" --out "$scratch/run" --overwrite \
    --quiet 2> "$scratch/err" || status=$?
  took=$((${EPOCHREALTIME/./} - begun))
  ((status == 0)) || fail "$status" "$(tail -n 1 "$scratch/err")"
}

one_run
for ((run = 0; run < runs; ++run)); do
  one_run
  echo "$took"
done | sort -n > "$scratch/took"
seconds_of_line() { awk -v line="$1" 'NR == line { printf "%.3f", $1 / 1e6 }' "$scratch/took"; }
# Some ARM machines have no model name in /proc/cpuinfo.
cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2> /dev/null | head -n 1)
echo "$(seconds_of_line $(((runs + 1) / 2))) s from start to end of a run of one step of $config: the median of $runs," \
  "$(seconds_of_line 1) to $(seconds_of_line "$runs") s; ${cpu:-$(uname -m)}, $(nproc) cores"
