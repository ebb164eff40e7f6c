#!/usr/bin/env bash
# Every source file is formatted as clang-format 14 does it; other versions break some lines differently.
#
# Usage: tests/checks/check_format.sh ROOT
# Prints clang-format's complaints; exits 1 if there is one, 77 if that clang-format is not installed.
set -euo pipefail
cd "${1:?check_format: needs the root folder of the tree}"

formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $formatter ]]; then
  echo "clang-format is not installed; scripts/setup.sh --dev does that"
  exit 77
fi
version=$("$formatter" --version)
if [[ $version != *"version 14."* ]]; then
  echo "the format is that of clang-format 14, and this is ${version##*version }"
  exit 77
fi
mapfile -t files < <(find lib apps tests -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh')
if ! "$formatter" --style=file --dry-run -Werror --ferror-limit=1 "${files[@]}" 2>&1; then
  echo "mend it with: clang-format -i FILE"
  exit 1
fi
