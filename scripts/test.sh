#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. Ends with the skipped tests, grouped by reason, and ctest's verdict.
#
# Usage: scripts/test.sh [--no-setup] [--preset release|debug|asan|tsan|cuda-sim|no-gpu] [ctest arguments, such as -R comm]
#   --no-setup   install nothing
#   --preset     test this build; release by default
#
# Exit codes: 64 usage, that of a failed setup or build, otherwise ctest's.
set -euo pipefail

fail() {
  echo "test: $2" >&2
  exit "$1"
}

setup=true
preset=release
while (($# > 0)); do
  case $1 in
    --no-setup) setup=false ;;
    --preset)
      (($# >= 2)) || fail 64 "--preset needs a value"
      preset=$2
      shift
      ;;
    --preset=*) preset=${1#*=} ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) break ;;
  esac
  shift
done

case $preset in
  release) folder=build ;;
  debug | asan | tsan | cuda-sim | no-gpu) folder=build-$preset ;;
  *) fail 64 "unknown preset '$preset'; there are release, debug, asan, tsan, cuda-sim and no-gpu" ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $setup == false ]] || "$root/scripts/setup.sh"
"$root/scripts/build.sh" --preset "$preset"

# The jobs for ctest. A test that computes takes three jobs, one with several processes takes one job (tests/CMakeLists.txt).
# There are enough jobs for one computing test per core, but no more than one per GiB.
jobs=$((3 * $(nproc)))
gib=$(($("$root/scripts/free_memory.sh") / 1024))
((jobs <= gib)) || jobs=$gib
((jobs >= 6)) || jobs=6

output=$(mktemp)
trap 'rm -f "$output"' EXIT
cd "$root"
code=0
ctest --preset "$preset" -j "$jobs" "$@" 2>&1 | tee "$output" || code=$?

# Prints each test with its reason for skipping: GoogleTest writes 'FILE:LINE: Skipped' and the reason below it; a check's
# reason is its last line.
skip_reasons() {
  awk '
    /^[0-9]+\/[0-9]+ Test: / { name = $0; sub(/^[0-9]+\/[0-9]+ Test: /, "", name); reason = ""; last = ""; take = 0 }
    /^<end of output>$/ { print name "\t" (reason != "" ? reason : last); take = 0; next }
    take && /^\[  SKIPPED \]/ { take = 0 }
    take && NF { reason = reason (reason == "" ? "" : " ") $0 }
    /: Skipped$/ { take = 1; reason = "" }
    NF { last = $0 }
  ' "$folder/Testing/Temporary/LastTest.log"
}

skipped=$(sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \(.*[^.]\) \.*\*\*\*Skipped.*/\1/p' "$output")
if [[ -n $skipped ]]; then
  reasons=$(skip_reasons)
  echo
  echo "Skipped: $(wc -l <<< "$skipped")"
  # One line per reason: the first test, and how many more.
  awk -F '\t' '
    NR == FNR { reason[$1] = $2; next }
    { why = reason[$0]; if (!(why in count)) { order[++kinds] = why; first[why] = $0 } ++count[why] }
    END {
      for (i = 1; i <= kinds; ++i) {
        why = order[i]
        more = ""
        if (count[why] > 1) more = " and " (count[why] - 1) " more"
        print "  " first[why] more ": " why
      }
    }' <(echo "$reasons") <(echo "$skipped")
fi
if failed=$(sed -n '/^The following tests FAILED:/,/^Errors while/p' "$output") && [[ -n $failed ]]; then
  echo
  echo "$failed"
fi
echo
grep -E '^[0-9]+% tests passed' "$output" | tail -1 || true
exit "$code"
