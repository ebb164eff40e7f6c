#!/usr/bin/env bash
# Usage: source tests/checks/hosts_needed.sh; needs_hosts SCRIPT ROOT FOLDER
#
# For a check of scripts/SCRIPT over "hosts". If this machine can't have hosts or mpirun is missing, needs_hosts exits with code 77
# and the reason, or with code 1 if the variable DPTRAIN_NEEDS_HOSTS is set.
set -euo pipefail
skip() {
  echo "$1"
  [[ -z ${DPTRAIN_NEEDS_HOSTS:-} ]] || exit 1
  exit 77
}
needs_hosts() {
  local program
  for program in python3 mpirun; do
    command -v "$program" > /dev/null || skip "$program, which scripts/$1 runs, is not installed"
  done
  "$2/tests/support/namespaces.sh" add "dptrain-$$" 2 2> "$3/err" || skip "$(tail -n 1 "$3/err")"
  "$2/tests/support/namespaces.sh" delete "dptrain-$$"
}
