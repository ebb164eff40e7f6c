#!/usr/bin/env bash
# scripts/scaling.py check uses the median of the rounds' ratios, each of a plan and a run of the same round. With --assert it exits
# with code 1 and the worst ratio if one is off by more than 15 %. Disturbed rounds don't count. The figures are made up: a stand-in
# for dptrain prints them.
#
# Usage: tests/checks/check_scaling.sh ROOT
# Prints a sentence for each violation; exits 1 if there is one, 77 without python3.
set -euo pipefail
root=${1:?check_scaling: needs the root folder of the tree}
command -v python3 > /dev/null || { echo "python3, which scripts/scaling.py runs in, is not installed"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Plans a step of 0.1 s. Every second run is the one that is compared with the plan; its step times are in STEPS, one word per
# round.
cat > "$folder/dptrain" << 'END_OF_PROGRAM'
#!/usr/bin/env bash
folder=$(dirname "$0")
if [[ $1 == plan ]]; then echo '{"time": {"step_s": 0.1}}'; exit 0; fi
if [[ $1 == bench ]]; then exit 0; fi
while [[ $1 != --out ]]; do shift; done
mkdir -p "$2"
[[ ${2##*/} != held ]] || echo >> "$folder/measured"
read -r -a steps <<< "$STEPS"
seconds=${steps[$(wc -l < "$folder/measured") - 1]:-9}
printf '{"global_batch": 1, "train": {"seconds": %s, "samples": 1}}\n' "$seconds" > "$2/metrics.jsonl"
END_OF_PROGRAM
chmod +x "$folder/dptrain"

bad=0
# ended CODE LAST_LINE STEPS ARGUMENT...
ended() {
  local status=0 said
  : > "$folder/measured"
  STEPS=$3 python3 -B "$root/scripts/scaling.py" check --build "$folder" --models LeNet --workers 1 "${@:4}" \
    > "$folder/out" 2> "$folder/err" || status=$?
  said=$(tail -n 1 "$folder/err")
  if ((status != $1)) || [[ $said != "$2"* ]]; then
    echo "scripts/scaling.py check ${*:4}, steps of $3 s: is to exit $1 and say '$2', but exited $status and said '$said'"
    bad=1
  fi
}
ended 0 '{"model": "LeNet", "workers": 1, "strategy": "single", "links": "none"' "0.3 0.1 0.1" --disturbed 2 --assert
grep -q '| LeNet | 1 | single | none | 100.0 | 100.0 | 1.00 | 0.33 to 1.00 |' "$folder/out" ||
  { echo "scripts/scaling.py check: its table has not the median and the spread of the rounds"; bad=1; }
ended 1 "scaling: 1 of 1 plans are over 15 % off; the worst, LeNet, single on 1 workers over none, by -50 %" "0.2 0.1 0.2" --disturbed 2 --assert
ended 0 '{"model": "LeNet"' "0.2 0.1 0.2" --disturbed 2
ended 1 "scaling: other processes disturbed 3 of 3 rounds; run it on a quiet machine, or allow more with --disturbed" "0.1 0.1 0.1" \
  --rounds 1 --disturbed -1
# Something that can't be measured is refused before anything is measured.
ended 2 "scaling: error: argument --strategies: model_parallel, gpipe takes 2 workers here; use --workers 2" "0.1" \
  --workers 4 --strategies "model_parallel, gpipe"
ended 2 "scaling: error: argument --strategies: with --hosts expected at least one strategy that can span processes, got kvstore" "0.1" \
  --hosts --workers 2 --strategies kvstore
exit "$bad"
