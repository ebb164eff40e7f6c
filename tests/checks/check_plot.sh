#!/usr/bin/env bash
# scripts/plot_runs.py reads runs while they are being written, leaves out an incomplete last line, and names runs by their
# differences. With matplotlib it draws them, repeatedly with --watch; without matplotlib it says what is missing.
#
# Usage: tests/checks/check_plot.sh ROOT
# Prints a sentence for each violation; exits 1 if there is one, 77 without python3 or without matplotlib.
set -euo pipefail
root=${1:?check_plot: needs the root folder of the tree}
command -v python3 > /dev/null || { echo "python3, which scripts/plot_runs.py runs in, is not installed"; exit 77; }
# Debian's matplotlib is for Debian's Python, which needn't be the first in PATH.
python=python3
if ! python3 -c 'import matplotlib' 2> /dev/null && /usr/bin/python3 -c 'import matplotlib' 2> /dev/null; then
  python=/usr/bin/python3
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
epoch() {
  printf '{"epoch": %s, "train": {"loss": 1.5, "accuracy": 0.5}, "test": %s}\n' "$1" "${2:-null}"
}
mkdir -p "$folder"/runs/{a,b,empty}
printf 'name: a\nmodel: lenet\nstrategy:\n  name: ddp\n  overlap: true\nseed: 0\n' > "$folder/runs/a/config.yaml"
printf 'name: b\nmodel: lenet\nstrategy:\n  name: ddp\n  overlap: false\nseed: 0\n' > "$folder/runs/b/config.yaml"
{ epoch 1 '{"loss": 1, "accuracy": 0.5}'; epoch 2; epoch 3 | head -c 20; } > "$folder/runs/a/metrics.jsonl"

"$python" -B - "$root/scripts" "$folder/runs" << 'END_OF_PYTHON'
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
from plot_runs import epochs_of, labels_of, runs_in

runs = runs_in(pathlib.Path(sys.argv[2]))
bad = []
if [run.name for run in runs] != ["a", "b"]:
    bad.append(f"the runs in a folder are {runs}")
if labels_of(runs) != ["overlap true", "overlap false"]:
    bad.append(f"runs that differ in strategy.overlap are called {labels_of(runs)}")
if [epoch["epoch"] for epoch in epochs_of(runs[0])] != [1, 2] or epochs_of(runs[1]):
    bad.append(f"of two epochs and half a line it reads {epochs_of(runs[0])}, of a run that has none {epochs_of(runs[1])}")
one = runs[0].parent.parent / "other" / "single"
one.mkdir(parents=True)
(one / "config.yaml").write_text("name: single\nmodel: lenet\nstrategy:\n  name: single\nseed: 0\n")
if labels_of([runs[0], one]) != ["strategy ddp", "strategy single"]:
    bad.append(f"runs of two strategies, of which one has options, are called {labels_of([runs[0], one])}")
if labels_of(runs + [one]) != ["strategy ddp, overlap true", "strategy ddp, overlap false", "strategy single"]:
    bad.append(f"two runs of one strategy beside another's are called {labels_of(runs + [one])}")
for sentence in bad:
    print(f"scripts/plot_runs.py: {sentence}")
sys.exit(bool(bad))
END_OF_PYTHON

# ended CODE WORDS ARGUMENT...: exits with that code and prints one sentence with the words.
ended() {
  local said status=0
  said=$("$python" -B "$root/scripts/plot_runs.py" "${@:3}" 2>&1) || status=$?
  if ((status != $1)) || [[ $said != *"$2"* || $said == *$'\n'* ]]; then
    echo "scripts/plot_runs.py ${*:3}: is to exit $1 with '$2', but exited $status and said: $said"
    exit 1
  fi
}
ended 64 "expected a name that ends in .svg" "$folder/runs" -o "$folder/curves"
ended 64 "--watch" "$folder/runs" -o "$folder/curves.svg" --watch 0
if ! "$python" -c 'import matplotlib' 2> /dev/null; then
  ended 69 "python3-matplotlib" "$folder/runs" -o "$folder/curves.svg"
  echo "matplotlib, which draws, is not installed: sudo apt-get install python3-matplotlib"
  exit 77
fi
ended 66 "found no config.yaml" "$folder/runs/empty" -o "$folder/curves.svg"
ended 0 "2 runs" "$folder/runs" -o "$folder/curves.svg"
ended 0 "2 runs" "$folder/runs" "$folder/runs" -o "$folder/curves.svg"  # each once
grep -q '</svg>' "$folder/curves.svg" || { echo "scripts/plot_runs.py: its picture is no whole SVG"; exit 1; }

# With more runs than the legend names, it says so.
for number in {1..13}; do
  mkdir -p "$folder/many/$number"
  printf 'name: many\nseed: %s\n' "$number" > "$folder/many/$number/config.yaml"
done
said=$("$python" -B "$root/scripts/plot_runs.py" "$folder/many" -o "$folder/many.svg" 2>&1 > /dev/null)
[[ $said == *"13 runs: the legend names at most 12 of them"* ]] || { echo "scripts/plot_runs.py: of 13 runs it says '$said'"; exit 1; }
rm -r "$folder/many"

# The drawing has two panels, each with the training and the test curve of every run. A point is missing if its epoch wasn't tested,
# or if its loss isn't finite.
"$python" -B - "$root/scripts" "$folder" << 'END_OF_PYTHON'
import json
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot
from plot_runs import draw

subplots, figures = matplotlib.pyplot.subplots, []


def kept_subplots(*arguments, **options):
    figures.append(subplots(*arguments, **options))
    return figures[-1]


matplotlib.pyplot.subplots = kept_subplots
# For each run, every epoch's loss and accuracy in training, validation and test; a run without validation has no such values.
passes = {"a": [((1.5, 0.5), (1.0, 0.625), (1.25, 0.625)), ((1.0, 0.75), (1.5, 0.5), None), ((0.75, 0.8125), (0.5, 0.75), (0.5, 0.875))],
          "b": [((3.0, 0.125), None, (2.0, 0.25)), ((None, 0.1875), None, (None, 0.3125))]}
folder, bad = pathlib.Path(sys.argv[2]) / "drawn", []
for run, epochs in passes.items():
    (folder / run).mkdir(parents=True)
    with (folder / run / "metrics.jsonl").open("w") as file:
        for number, epoch in enumerate(epochs, 1):
            train, validation, test = (one and dict(zip(("loss", "accuracy"), one)) for one in epoch)
            file.write(json.dumps({"epoch": number, "train": train, "test": test} | ({"validation": validation} if run == "a" else {})) + "\n")
draw([folder / run for run in passes], list(passes), folder / "curves.svg")

[(figure, panels)] = figures
legend = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
if legend != ["test", "validation", "training", "a", "b"]:
    bad.append(f"the legend says {legend}")
if [panel.get_title("left") for panel in panels] != ["Loss", "Accuracy, %"]:
    bad.append(f"the panels are called {[panel.get_title('left') for panel in panels]}")
for panel, kind, scale in zip(panels, (0, 1), (1, 100)):
    expected = []
    for epochs in passes.values():
        for which, style in ((0, "--"), (1, ":"), (2, "-")):
            points = [(number, scale * one[which][kind]) for number, one in enumerate(epochs, 1)
                      if one[which] and one[which][kind] is not None]
            if points:
                expected.append((style, points))
    drawn = [(line.get_linestyle(), [(float(x), float(y)) for x, y in line.get_xydata()]) for line in panel.get_lines()]
    if drawn != expected:
        bad.append(f"the panel '{panel.get_title('left')}' has the curves {drawn}, not {expected}")
    colors = [line.get_color() for line in panel.get_lines()]
    if len(colors) != 5 or len(set(colors[:3])) > 1 or colors[3] != colors[4] or colors[0] == colors[3]:
        bad.append(f"the curves of the panel '{panel.get_title('left')}' have the colors {colors}: each run is to have its own")
for sentence in bad:
    print(f"scripts/plot_runs.py: {sentence}")
sys.exit(bool(bad))
END_OF_PYTHON
ended 74 "No such file or directory" "$folder/runs" -o "$folder/nowhere/curves.svg"
mkdir "$folder/folder.svg"
ended 74 "Is a directory" "$folder/runs" -o "$folder/folder.svg"
# Files that no run has written.
cp -r "$folder/runs" "$folder/strange"
for line in '{"a": 1}' '[]' '{"epoch": 1, "train": {"loss": "low"}, "test": null}' $'\xff'; do
  printf '%s\n' "$line" > "$folder/strange/a/metrics.jsonl"
  ended 65 "leave this run out" "$folder/strange" -o "$folder/curves.svg"
done
# A configuration is UTF-8, whatever the locale.
cp -r "$folder/runs" "$folder/umlaut"
printf 'name: \xc3\xbc\n' >> "$folder/umlaut/a/config.yaml"
PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 LC_ALL=C ended 0 "2 runs" "$folder/umlaut" -o "$folder/curves.svg"
printf 'name: \xfc\n' >> "$folder/umlaut/a/config.yaml"
ended 65 "config.yaml: expected a configuration in UTF-8" "$folder/umlaut" -o "$folder/curves.svg"

# watched CONDITION...: waits until the command succeeds, for some seconds at most.
watched() {
  local deadline=$((SECONDS + 120))
  until "$@"; do
    if ((SECONDS > deadline)) || ! kill -0 "$watcher" 2> /dev/null; then
      echo "scripts/plot_runs.py --watch: waited in vain for: $*; it said: $(< "$folder/said")"
      exit 1
    fi
    sleep 0.1
  done
}
picture_differs() { [[ -s $folder/live.svg ]] && ! cmp -s "$folder/live.svg" "$folder/before.svg"; }
# As separate jobs they get SIGINT as from a keyboard.
set -m
watcher=
trap '[[ -z $watcher ]] || kill -9 "$watcher" 2> /dev/null || true; rm -rf "$folder"' EXIT
watch() {
  : > "$folder/before.svg"
  "$python" -B "$root/scripts/plot_runs.py" "$folder/runs" -o "$folder/live.svg" --watch 0.2 > "$folder/said" 2>&1 &
  watcher=$!
  watched picture_differs
}
# expect_ended CODE WORDS: the exit code, one sentence, a complete picture, and no unfinished one beside it.
expect_ended() {
  local status=0
  wait "$watcher" || status=$?
  if ((status != $1)) || [[ $(< "$folder/said") != *"$2"* ]] || (($(wc -l < "$folder/said") != 1)) ||
    ! grep -q '</svg>' "$folder/live.svg" || compgen -G "$folder/.live*" > /dev/null; then
    echo "scripts/plot_runs.py --watch: is to exit $1 with '$2' and leave a picture alone, but exited $status, said" \
      "'$(< "$folder/said")' and left $(ls -A "$folder")"
    exit 1
  fi
}
watch
cp "$folder/live.svg" "$folder/before.svg"
epoch 1 '{"loss": 2, "accuracy": 0.25}' > "$folder/runs/b/metrics.jsonl"
watched picture_differs
kill -INT "$watcher"
expect_ended 130 "stopped by SIGINT"
# It ends when all runs have ended, including failed ones.
watch
echo '{}' > "$folder/runs/a/summary.json"
echo '{}' > "$folder/runs/b/fault.json"
expect_ended 0 "2 runs"
