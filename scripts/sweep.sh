#!/usr/bin/env bash
# Trains every combination of the given values, each in DIR/<first 16 digits of its configuration's hash>. Ends with a table of all runs
# in DIR, which it also writes to table.md and table.json there. Finished runs are skipped, and runs that were begun are continued, so a
# killed sweep continues when it is run again. Any number of sweeps may work in one DIR at a time: a run that another sweep trains is
# left to that sweep, and waited for at the end. Combinations that dptrain refuses are reported before anything is trained.
#
# Usage: scripts/sweep.sh --config F [--out DIR] KEY=VALUE[,VALUE...]... [-- flags of dptrain, such as --devices cpu:0]
#   --config   the experiment: a YAML file, or the name of one in configs/
#   --out      the folder of the runs; runs/sweep-<name> by default
# Commas within brackets belong to a value: 'strategy=single,{name: ddp, overlap: false}'. DPTRAIN_BINARY names another binary
# than build/dptrain.
#
# Exit codes: 0 all are trained, 64 usage, 66 there is no dptrain, 129, 130 and 143 stopped by a signal, otherwise the highest of the
# runs that failed.
set -euo pipefail

fail() {
  echo "sweep: $2" >&2
  exit "$1"
}

config=
out=
keys=()
values=()
flags=()
while (($# > 0)); do
  case $1 in
    --config | --out)
      if (($# < 2)) || [[ -z $2 || $2 == -* ]]; then fail 64 "$1 needs a value"; fi
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --config=?* | --out=?*)
      name=${1%%=*}
      printf -v "${name#--}" '%s' "${1#*=}"
      ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --)
      flags=("${@:2}")
      break
      ;;
    -*) fail 64 "unknown argument '$1'; there are --config and --out, and flags of dptrain go after --" ;;
    ?*=*)
      keys+=("${1%%=*}")
      values+=("${1#*=}")
      ;;
    *) fail 64 "expected KEY=VALUE,VALUE, got '$1'; write for instance batch_size=128,256" ;;
  esac
  shift
done
[[ -n $config ]] || fail 64 "--config is missing; write for instance --config lenet_ddp_2cpu"
((${#keys[@]} > 0)) || fail 64 "there is nothing to vary; write for instance batch_size=128,256"
for flag in "${flags[@]}"; do
  [[ $flag != --help && $flag != -h && $flag != --version ]] ||
    fail 64 "$flag can't be used after --, where the flags of each run go; use dptrain $flag instead"
  case ${flag%%=*} in
    --out | --config | --dump-config | --json | --quiet | --resume) fail 64 "${flag%%=*} can't be used after --: the sweep sets it" ;;
    --overwrite) fail 64 "--overwrite can't be used after --: a sweep continues the runs in its folder; remove the folder to start again" ;;
  esac
done
# A key that is given twice would train something that no combination says, because dptrain takes the last of two values.
# is_within KEY OTHER: whether one of the keys contains the other, like strategy and strategy.bucket_mb, or split and split[0].
is_within() { [[ $1 == "$2" || $1 == "$2"[.[]* || $2 == "$1"[.[]* ]]; }
for ((i = 0; i < ${#keys[@]}; ++i)); do
  for ((j = 0; j < i; ++j)); do
    ! is_within "${keys[i]}" "${keys[j]}" || fail 64 "'${keys[i]}' is given twice; write all of its values once, with commas between them"
  done
  for ((f = 0; f < ${#flags[@]}; ++f)); do
    case ${flags[f]} in
      --set) given=${flags[f + 1]:-} ;;
      --set=*) given=${flags[f]#--set=} ;;
      --devices | --devices=*) given=devices= ;;
      *) continue ;;
    esac
    ! is_within "${keys[i]}" "${given%%=*}" ||
      fail 64 "'${keys[i]}' is both varied and set after --; leave out one of them"
  done
done
name=${config##*/}
out=${out:-runs/sweep-${name%.yaml}}
[[ $out != *{*}* ]] || fail 64 "--out can't contain braces, got '$out': it is one folder, in which each run's folder is named by its hash"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=${DPTRAIN_BINARY:-$root/build/dptrain}
[[ -x $binary ]] || fail 66 "$binary is missing; scripts/build.sh builds it"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A signal ends the current run after its step; the run's exit code says so. Every signal is passed on as SIGTERM, the only one
# that a starting process never misses: bash makes background processes ignore SIGINT, and loses SIGHUP until the process has
# become another program.
child=
stopping=
pass_on() {
  stopping=$1
  [[ -z $child ]] || kill -s TERM "$child" 2> /dev/null || true
}
for signal in INT TERM HUP; do trap "pass_on $signal" "$signal"; done
# end_if_stopping [CODE [WHERE]]: ends the sweep if a signal came here, or if CODE says that a signal ended dptrain alone.
end_if_stopping() {
  case ${stopping:-${1:-0}} in
    INT | 130) fail 130 "stopped ${2:-by SIGINT}; the same command continues the sweep" ;;
    HUP | 129) fail 129 "stopped ${2:-by SIGHUP}; the same command continues the sweep" ;;
    TERM | 143) fail 143 "stopped ${2:-by SIGTERM}; the same command continues the sweep" ;;
  esac
}

# split_values TEXT: prints the parts between commas outside of brackets, one per line.
split_values() {
  local text=$1 part= depth=0 i c
  for ((i = 0; i < ${#text}; ++i)); do
    c=${text:i:1}
    case $c in
      '[' | '{') depth=$((depth + 1)) ;;
      ']' | '}') depth=$((depth - 1)) ;;
    esac
    if [[ $c == , && $depth == 0 ]]; then
      printf '%s\n' "$part"
      part=
    else
      part+=$c
    fi
  done
  printf '%s\n' "$part"
}

# Each combination is a line: KEY=VALUE parts with tabs between them, the last key varying fastest.
combinations=('')
for ((k = 0; k < ${#keys[@]}; ++k)); do
  mapfile -t parts < <(split_values "${values[k]}")
  longer=()
  for combination in "${combinations[@]}"; do
    for part in "${parts[@]}"; do longer+=("$combination${combination:+$'\t'}${keys[k]}=$part"); done
  done
  combinations=("${longer[@]}")
done

worst=0
count=${#combinations[@]}
# report NUMBER SENTENCE: prints the sentence for this combination.
report() {
  echo "[$(($1 + 1))/$count] ${combinations[$1]//$'\t'/ }: $2"
}
# The last line on dptrain's stderr, which is the root cause.
last_sentence() { tail -n 1 "$scratch/err" | sed -E 's/^(\[[a-z]+ [0-9]+\] )?dptrain: //'; }
# report_warnings NUMBER: prints the warnings of this combination's run.
report_warnings() {
  local warning
  while IFS= read -r warning; do report "$1" "$warning"; done < <(grep -o 'warning: .*' "$scratch/err")
}
# note_failure NUMBER CODE SENTENCE: reports a failed combination and keeps the highest code.
note_failure() {
  report "$1" "FAILED with exit code $2: $3"
  ((worst >= $2)) || worst=$2
}

# The directory of each combination; empty if dptrain refuses it.
directories=()

# sets_of NUMBER: sets 'sets' to the combination's flags for dptrain.
sets_of() {
  local assignments assignment
  sets=()
  IFS=$'\t' read -r -a assignments <<< "${combinations[$1]}"
  for assignment in "${assignments[@]}"; do sets+=(--set "$assignment"); done
}

# resolve NUMBER: finds the combination's directory. Returns dptrain's exit code, which is not 0 if dptrain refuses the
# combination.
resolve() {
  local sets hash status=0
  sets_of "$1"
  "$binary" --config "$config" "${sets[@]}" "${flags[@]}" --dump-config > "$scratch/config" 2> "$scratch/err" || status=$?
  end_if_stopping "$status"
  directories[$1]=
  ((status == 0)) || return "$status"
  hash=$(sed -n 's/^# config_hash: \(.\{16\}\).*/\1/p' "$scratch/config")
  [[ -n $hash ]] || fail 66 "$binary --dump-config names no config_hash; is it a dptrain of this version?"
  directories[$1]=$out/$hash
}

# train NUMBER: trains a combination. Returns 1 if another process is training it, else 0.
train() {
  local sets directory=${directories[$1]} status=0
  sets_of "$1"
  if grep -qsE '"exit": *0,' "$directory/summary.json"; then
    report "$1" "already trained, $directory"
    return 0
  fi
  end_if_stopping
  "$binary" --config "$config" "${sets[@]}" "${flags[@]}" --out "$directory" --resume --quiet --json \
    > "$scratch/epochs" 2> "$scratch/err" &
  child=$!
  [[ -z $stopping ]] || pass_on "$stopping"
  wait "$child" || status=$?
  # A signal interrupts the wait before the run has ended.
  while kill -0 "$child" 2> /dev/null; do
    status=0
    wait "$child" || status=$?
  done
  child=
  report_warnings "$1"
  case $status in
    0)
      # Another sweep may have finished the run just before.
      if [[ -s $scratch/epochs ]]; then report "$1" "trained now, $directory"; else report "$1" "already trained, $directory"; fi
      ;;
    129 | 130 | 143) end_if_stopping "$status" "in ${combinations[$1]//$'\t'/ }" ;;
    74)
      ! grep -q 'another process is writing this run directory' "$scratch/err" || return 1
      note_failure "$1" 74 "$(last_sentence)"
      ;;
    *) note_failure "$1" "$status" "$(last_sentence)" ;;
  esac
}

# Combinations that can't be trained are found before hours are spent on the others. A mistake in all of them, such as the name
# of a key, is reported once.
refused=()
codes=()
sentences=()
for ((number = 0; number < count; ++number)); do
  code=0
  resolve "$number" || code=$?
  if ((code != 0)); then
    refused+=("$number")
    codes+=("$code")
    sentences+=("$(last_sentence)")
  fi
done
if ((${#refused[@]} == count)) && [[ $(printf '%s\n' "${sentences[@]}" | sort -u | wc -l) == 1 ]]; then
  fail "${codes[0]}" "${sentences[0]}"
fi
for i in "${!refused[@]}"; do note_failure "${refused[i]}" "${codes[i]}" "${sentences[i]}"; done

waiting=()
pause=1
for ((number = 0; number < count; ++number)); do
  [[ -z ${directories[number]} ]] || train "$number" || waiting+=("$number")
done
while ((${#waiting[@]} > 0)); do
  sleep "$pause" || true
  end_if_stopping
  ((pause >= 8)) || pause=$((2 * pause))
  still=()
  for number in "${waiting[@]}"; do
    train "$number" || still+=("$number")
  done
  waiting=("${still[@]}")
done

# table [FLAG]: prints the table of all runs in the folder.
table() {
  local status=0
  "$binary" table "$@" "$out" || status=$?
  end_if_stopping "$status"
  return "$status"
}
# write_table FLAG FILE: writes a table. Other sweeps may write the same file at the same time.
write_table() {
  table "$1" > "$scratch/table"
  cp "$scratch/table" "$out/.$2.$$"
  mv "$out/.$2.$$" "$out/$2"
}
# This is a loop because the folder's name may hold characters of a pattern.
has_runs() {
  local run
  for run in "$out"/*/config.yaml; do
    [[ ! -e $run ]] || return 0
  done
  return 1
}
if has_runs; then
  write_table --json table.json
  write_table --markdown table.md
  echo
  table
fi
exit "$worst"
