#!/usr/bin/env bash
# Prints how many MiB of memory are free on this machine, or a container's limit if that is less.
#
# Usage: scripts/free_memory.sh
#
# Exit codes: 0, 64 usage.
set -euo pipefail

case ${1:-} in
  '') ;;
  -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "free_memory: expected no arguments, got '$1'" >&2 && exit 64 ;;
esac

mib=$(awk '$1 == "MemAvailable:" {print int($2 / 1024)}' /proc/meminfo)
limit=$(cat /sys/fs/cgroup/memory.max 2> /dev/null || echo max)
if [[ $limit != max ]] && ((limit / 1048576 < mib)); then
  mib=$((limit / 1048576))
fi
echo "$mib"
