#!/usr/bin/env bash
# One process of a job that a test launches. Its output goes into its own files, so that a test sees each process's output
# separately.
#
# Usage: tests/support/one_process.sh FOLDER COMMAND [ARGUMENT ...]
# Writes FOLDER/<rank>.pid, .out, .err and, where the launcher doesn't kill it too, .exit.
set -euo pipefail

place=${1:?one_process: needs a folder}/${OMPI_COMM_WORLD_RANK:?one_process: is started by mpirun}
shift
# The launcher's signals also reach the command, which decides how the process ends.
trap : TERM INT
code=0
sh -c 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec "$@"' "$place.pid" "$@" > "$place.out" 2> "$place.err" || code=$?
echo "$code" > "$place.exit"
exit "$code"
