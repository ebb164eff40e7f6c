#!/usr/bin/env bash
# Configures and builds dptrain; the release binary is build/dptrain.
#
# Usage: scripts/build.sh [--preset release|debug|asan|tsan|cuda-sim|no-gpu] [--target NAME] [--jobs N] [-DNAME=VALUE ...]
#   --preset   a preset of CMakePresets.json; release is built in build, every other preset in build-<preset>
#   --target   build only this target, for example dptrain without the tests
#   --jobs     compile this many files at a time; by default one per core, but only as many as fit into memory at 1.5 GiB each
#   -D, -U, -W and --fresh are passed to CMake's configuration
#
# Exit codes: 0 built, 64 usage, 69 a tool is missing, otherwise CMake's own.
set -euo pipefail

fail() {
  echo "build: $2" >&2
  exit "$1"
}

# The number of files to compile at a time: one per core, but no more than fit into free memory.
jobs_for_this_machine() {
  local cores jobs
  cores=$(nproc)
  jobs=$(($("$root/scripts/free_memory.sh") / 1536))
  ((jobs >= 1)) || jobs=1
  echo $((jobs < cores ? jobs : cores))
}

preset=release
target=
jobs=
configure=()
while (($# > 0)); do
  case $1 in
    --preset | --target | --jobs)
      if (($# < 2)) || [[ $2 == -* ]]; then fail 64 "$1 needs a value"; fi
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --preset=* | --target=* | --jobs=*)
      name=${1%%=*}
      printf -v "${name#--}" '%s' "${1#*=}"
      ;;
    -D | -U)
      (($# >= 2)) || fail 64 "$1 needs a value"
      configure+=("$1" "$2")
      shift
      ;;
    -D?* | -U?* | -W?* | --fresh) configure+=("$1") ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail 64 "unknown argument '$1'; there are --preset, --target, --jobs, and CMake's -D, -U, -W and --fresh" ;;
  esac
  shift
done
case $preset in
  release) folder=build ;;
  debug | asan | tsan | cuda-sim | no-gpu) folder=build-$preset ;;
  *) fail 64 "unknown preset '$preset'; there are release, debug, asan, tsan, cuda-sim and no-gpu" ;;
esac
[[ -z $jobs || $jobs =~ ^[1-9][0-9]*$ ]] || fail 64 "--jobs needs a number of at least 1, got '$jobs'"

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
command -v cmake > /dev/null || fail 69 "cmake is missing; scripts/setup.sh installs it"

# A folder keeps the generator that it was first configured with, whatever the preset says.
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$folder/CMakeCache.txt" 2> /dev/null || true)
if [[ -n $generator && $generator != Ninja && " ${configure[*]} " != *" --fresh "* ]]; then
  configure+=(-G "$generator")
else
  command -v ninja > /dev/null || fail 69 "ninja is missing; scripts/setup.sh installs it"
fi

cmake --preset "$preset" "${configure[@]}"
cmake --build "$folder" --parallel "${jobs:-$(jobs_for_this_machine)}" ${target:+--target "$target"}
