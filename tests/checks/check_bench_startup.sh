#!/usr/bin/env bash
# scripts/bench_startup.sh prints the median of short runs and the machine, refuses wrong arguments, and exits with the code of a
# run that fails.
#
# Usage: tests/checks/check_bench_startup.sh ROOT BUILD_FOLDER
# Prints a sentence for each violation; exits 1 if there is one.
set -euo pipefail
root=${1:?check_bench_startup: needs the root folder of the tree} build=${2:?check_bench_startup: needs the build folder}
bad=0
# ended CODE PATTERN ARGUMENT...: exits with this code and prints one line that matches the pattern.
ended() {
  local said status=0
  said=$(DPTRAIN_BINARY=$build/dptrain "$root/scripts/bench_startup.sh" "${@:3}" 2>&1) || status=$?
  if ((status != $1)) || [[ ! $said =~ ^$2$ ]]; then
    echo "scripts/bench_startup.sh ${*:3}: is to exit $1 and say '$2', but exited $status and said: $said"
    bad=1
  fi
}
seconds='[0-9]+\.[0-9]{3}'
ended 0 "$seconds s from start to end of a run of one step of lenet_1cpu: the median of 3, $seconds to $seconds s; .+, [0-9]+ cores" --runs 3
ended 64 "bench_startup: --runs: expected a number from 1 to 9999, got '0'" --runs 0
ended 64 "bench_startup: unknown argument '--run'; .+" --run 3
ended 78 "bench_startup: .*batch_sise.+did you mean 'batch_size'.*" -- --set batch_sise=3
exit "$bad"
