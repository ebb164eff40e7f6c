#!/usr/bin/env bash
# Links in the documents are valid: a relative link's file exists, and its #anchor is one of that file's headings.
#
# Usage: tests/checks/check_links.sh ROOT
# Prints FILE:LINE: sentence for each violation; exits 1 if there is one.
set -euo pipefail
cd "${1:?check_links: needs the root folder of the tree}"

pages=$(find . -name '*.md' -not -path './.*/*' -not -path './build*' -not -path './runs/*' | sort)
[[ -n $pages ]] || exit 0

# Two passes over all pages: the first one collects anchors, as GitHub makes them from headings, and the second one follows links.
# Code blocks are skipped.
# shellcheck disable=SC2086
awk '
  FNR == 1 { page = FILENAME; sub(/^\.\//, "", page); in_code = 0; pass = page in seen ? 2 : 1; seen[page] = 1 }
  /^ *```/ { in_code = !in_code; next }
  in_code || /^    / { next }
  pass == 1 && /^#+ / { anchors[page "#" anchor_of($0, page)] = 1 }
  pass == 2 { follow($0) }

  function anchor_of(heading, page, text) {
    text = heading
    sub(/^#+ +/, "", text)
    while (match(text, /\[[^]]*\]\([^)]*\)/)) {
      link = substr(text, RSTART, RLENGTH)
      sub(/^\[/, "", link)
      sub(/\].*$/, "", link)
      text = substr(text, 1, RSTART - 1) link substr(text, RSTART + RLENGTH)
    }
    text = tolower(text)
    gsub(/[^a-z0-9_ -]/, "", text)
    gsub(/ /, "-", text)
    times = headings[page "#" text]++
    return times == 0 ? text : text "-" times
  }

  function follow(line, target, file, anchor, folder) {
    while (match(line, /\]\([^) ]+\)/)) {
      target = substr(line, RSTART + 2, RLENGTH - 3)
      line = substr(line, RSTART + RLENGTH)
      if (target ~ /^[a-z]+:/) continue
      anchor = file = target
      if (!sub(/^[^#]*#/, "", anchor)) anchor = ""
      sub(/#.*$/, "", file)
      folder = page
      if (!sub(/\/[^\/]*$/, "", folder)) folder = "."
      file = file == "" ? page : plain(folder "/" file)
      if (system("test -e \"" file "\"") != 0) report(target, "no file " file)
      else if (anchor != "" && file ~ /\.md$/ && !((file "#" anchor) in anchors)) report(target, file " has no heading #" anchor)
    }
  }

  # rewrites a/../b as b
  function plain(path) {
    gsub(/\/\.\//, "/", path)
    sub(/^(\.\/)+/, "", path)
    while (match(path, /(^|\/)[^\/.][^\/]*\/\.\.\//))
      path = substr(path, 1, RSTART - 1) (substr(path, RSTART, 1) == "/" ? "/" : "") substr(path, RSTART + RLENGTH)
    return path
  }

  function report(target, why) { printf "%s:%d: the link %s leads nowhere: %s\n", page, FNR, target, why; bad = 1 }
  END { exit bad }
' $pages $pages
