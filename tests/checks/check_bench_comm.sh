#!/usr/bin/env bash
# scripts/bench_comm.py --assert exits with code 1 and a sentence with the figures if the all-reduce takes more than twice as long
# as a memcpy, and with code 0 otherwise. The figures are made up: a stand-in for dptrain prints them.
#
# Usage: tests/checks/check_bench_comm.sh ROOT
# Prints a sentence for each violation; exits 1 if there is one, 77 without python3.
set -euo pipefail
root=${1:?check_bench_comm: needs the root folder of the tree}
command -v python3 > /dev/null || { echo "python3, which scripts/bench_comm.py runs in, is not installed"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Over two ranks the all-reduce takes twice as long as a memcpy; over four it takes SECONDS_OF_FOUR.
cat > "$folder/dptrain" << 'END_OF_PROGRAM'
#!/usr/bin/env bash
if [[ $1 == --version ]]; then echo "dptrain made-up"; exit 0; fi
seconds=0.02
[[ $4 != cpu:0-3 ]] || seconds=$SECONDS_OF_FOUR
printf '{"comm": [{"collective": "all_reduce", "bytes": 26214400, "sent_bytes": 1, "seconds": %s, "copy_s": 0.01}]}\n' "$seconds"
END_OF_PROGRAM
chmod +x "$folder/dptrain"

bad=0
# ended CODE LAST_LINE SECONDS_OF_FOUR ARGUMENT...
ended() {
  local status=0 said
  SECONDS_OF_FOUR=$3 python3 -B "$root/scripts/bench_comm.py" --binary "$folder/dptrain" --without-peers --rounds 1 "${@:4}" \
    > "$folder/out" 2> "$folder/err" || status=$?
  said=$(< "$folder/err")
  if ((status != $1)) || [[ $said != "$2" ]]; then
    echo "scripts/bench_comm.py ${*:4}, four ranks in $3 s: is to exit $1 and say '$2', but exited $status and said '$said'"
    bad=1
  fi
  grep -q '"all_reduce"' "$folder/out" || { echo "scripts/bench_comm.py ${*:4}: printed no figures"; bad=1; }
}
ended 0 "" 0.02 --assert
ended 1 "bench_comm: 4 ranks: the all-reduce of 25 MiB took 20.10 ms, 2.01x of the memcpy's 10.00 ms; expected at most 2x" 0.0201 --assert
ended 0 "" 0.0201 -o "$folder/report"
grep -q '| 4 | 20.10 | 10.00 | - | - | 2.01x (not <= 2x) |' "$folder/report.md" ||
  { echo "scripts/bench_comm.py: its document has not the row of four ranks"; bad=1; }
exit "$bad"
