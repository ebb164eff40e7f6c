#!/usr/bin/env bash
# No comments about postponed work, no generic file names, and usage text in every script.
#
# Usage: tests/checks/check_words.sh ROOT
# Prints FILE: sentence for each violation; exits 1 if there is one.
set -euo pipefail
cd "${1:?check_words: needs the root folder of the tree}"

bad=0
report() {
  [[ -z $1 ]] || { echo "$1"; bad=1; }
}

folders=()
for folder in .ci apps cmake configs docs lib scripts tests; do
  [[ ! -d $folder ]] || folders+=("$folder")
done

# Written in two parts, so that this file doesn't match itself.
words='TO''DO|FIX''ME|XX''X'
report "$(grep -rnIwE "$words" "${folders[@]}" |
  sed -E 's|^([^:]*:[0-9]+):.*|\1: a note of work put off; do it, or file an issue|' || true)"

report "$(find "${folders[@]}" | grep -E '(^|[/_.-])(utils?|helpers?|common|misc|managers?)([/_.-]|$)' |
  sed 's|$|: this name says nothing; name the concept that the file holds|' || true)"

while read -r script; do
  # Files that scripts import or compile don't count as scripts.
  [[ $script != *.c ]] || continue
  [[ $script != *.py ]] || grep -q '^if __name__ == "__main__":' "$script" || continue
  [[ -x $script ]] || report "$script: not executable"
  report "$(head -n 20 "$script" | grep -q '^# Usage: ' || echo "$script: no '# Usage:' in its first lines")"
  head -n 1 "$script" | grep -qE '(bash|/sh)$' || continue
  grep -qx 'set -euo pipefail' "$script" || report "$script: no 'set -euo pipefail'"
  bash -n "$script" 2>&1 || report "$script: bash can't parse it"
done < <(find "${folders[@]}" -type f \( -path '.ci/*' -o -path 'scripts/*' -o -name '*.sh' \) -not -path '*/__pycache__/*')
exit "$bad"
