#!/usr/bin/env bash
# docs/ci.md has one command for a shell and for a job of GitHub Actions. As written there, it exits with code 0 and leaves the
# files that the job then reads.
#
# Usage: tests/checks/check_compare.sh ROOT BUILD_FOLDER
# Prints a sentence for each violation; exits 1 if there is one.
set -euo pipefail
root=$(cd "${1:?check_compare: needs the root folder of the tree}" && pwd)
build=$(cd "${2:?check_compare: needs the build folder}" && pwd)
page=$root/docs/ci.md

# Each command on one line, however the page breaks it: up to the end of the code block, or of the job's step.
mapfile -t commands < <(awk '/^ *build\/dptrain compare / { taken = 1 }
  taken && /^(```| *- )/ { taken = 0; printf "\n" }
  taken { sub(/\\$/, ""); printf "%s ", $0 }' "$page" | tr -s ' ' | sed 's/^ //')
if ((${#commands[@]} != 2)) || [[ ${commands[0]} != "${commands[1]}" ]]; then
  echo "docs/ci.md: is to have one command twice, but has:"
  printf '  %s\n' "${commands[@]}"
  exit 1
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/build"
ln -s "$build/dptrain" "$folder/build/dptrain"
cd "$folder"
status=0
bash -c "${commands[0]}" > said 2>&1 || status=$?
if ((status != 0)); then
  echo "docs/ci.md: its command exited $status and said: $(< said)"
  exit 1
fi
bad=0
while read -r left; do
  compgen -G "$left" > /dev/null || { echo "docs/ci.md: its job reads $left, which the command doesn't leave"; bad=1; }
done < <(grep -oE 'runs/ci/[^ ]+' "$page" | sort -u)
exit "$bad"
