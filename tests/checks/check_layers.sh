#!/usr/bin/env bash
# A folder of lib/ is a floor: it includes its own files and those of the floors below it that lib/CMakeLists.txt gives it.
#
# Usage: tests/checks/check_layers.sh ROOT
# Prints FILE:LINE: sentence for each violation; exits 1 if there is one.
set -euo pipefail
cd "${1:?check_layers: needs the root folder of the tree}"

# The floors from bottom to top. Folders on one line don't include each other, except that the optimizers may include the modules.
floors='
base
config
device
tensor
ops
autograd
nn optim
models data comm
parallel
train plan
'

includes=$(grep -rnE --include='*.h' --include='*.cc' --include='*.cu' --include='*.cuh' \
  '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"][^>"]*/' lib || true)

{
  sed 's/^/floors /' <<< "$floors"
  # One line for each dptrain_floor(NAME FLOORS ... [VENDOR ...]), also if it is written over several lines.
  sed 's/#.*//' lib/CMakeLists.txt | tr '\n' ' ' | grep -oE 'dptrain_floor\([^)]*\)' | sed 's/dptrain_floor(/declared /; s/)//'
  sed 's/^/include /' <<< "$includes"
} | awk '
  $1 == "floors" { ++level; for (i = 2; i <= NF; ++i) rank[$i] = level; next }
  $1 == "declared" {
    sees[$2, $2] = 1
    for (i = 3; i <= NF && $i !~ /^(([A-Z]+_)?VENDOR|EXCLUDE)$/; ++i) sees[$2, $i] = 1
    next
  }
  NF < 2 { next }
  {
    sub(/^include /, "")
    split($0, part, ":")
    place = part[1] ":" part[2]
    split(part[1], path, "/")
    floor = path[2]
    ours = $0 ~ /include[ \t]*"/
    sub(/^[^<"]*[<"]/, "")
    sub(/[>"].*/, "")
    target = $0
    sub(/\/.*/, "", target)
    if (!ours && !(target in rank)) next
    if (!(floor in rank)) {
      print place ": folder lib/" floor " is not one of the floors; add it to them in tests/checks/check_layers.sh"
    } else if (!(target in rank)) {
      print place ": includes \"" $0 "\", which is of no floor; inside lib/ name files as \"floor/file.h\""
    } else if (rank[target] > rank[floor]) {
      print place ": " floor " includes " $0 ", but " target " is a floor above it"
    } else if (rank[target] == rank[floor] && target != floor && !(floor == "optim" && target == "nn")) {
      print place ": " floor " includes " $0 ", but " target " stands beside it, not below it"
    } else if (!((floor, target) in sees)) {
      print place ": " floor " includes " $0 ", but lib/CMakeLists.txt does not list " target " among the FLOORS of " floor
    } else {
      next
    }
    bad = 1
  }
  END { exit bad }
'
