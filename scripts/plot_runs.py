#!/usr/bin/env python3
# Usage: scripts/plot_runs.py RUNS... -o curves.svg [--watch SECONDS]
"""Draws loss and accuracy of runs over their epochs, during the runs or afterwards. The legend names what the runs differ in.

RUNS are run directories, or folders of them as `dptrain compare` and scripts/sweep.sh leave them. The ending of the name after -o gives
the kind of picture: svg, png, pdf. With --watch it is drawn again every so many seconds, until all runs have ended and no other run has
begun for as long. Ctrl-C stops that and leaves the picture.
Exit codes: 0 drawn, 64 usage, 65 a file that no run wrote, 66 no run found, 69 matplotlib is missing, 74 the picture can't be written,
130 stopped by Ctrl-C.
"""
import argparse
import itertools
import json
import os
import pathlib
import sys
import time

# The colors can be told apart with every kind of color blindness (Okabe and Ito, 2008), and the lines by style and marker without
# color.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]  # one fewer than markers, so that pairs repeat late
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
STYLES = {"train": "--", "validation": ":", "test": "-"}
OPACITY = {"train": 0.6, "validation": 1, "test": 1}
MOST_NAMES = 12  # with more names, the legend would be larger than the curves


def fail(code, sentence):
    print(f"plot_runs: {sentence}", file=sys.stderr)
    sys.exit(code)


def runs_in(folder, levels=2):
    """The run directories: `folder` itself, or those inside it."""
    if (folder / "config.yaml").is_file():
        return [folder]
    if levels == 0 or not folder.is_dir():
        return []
    return [run for inner in sorted(folder.iterdir()) for run in runs_in(inner, levels - 1)]


def flat_config(text):
    """Dotted keys and values of a config.yaml as dptrain writes it: one key per line, mappings indented by two spaces. Items of
    lists belong to the key above them."""
    values, path = {}, []
    for line in text.splitlines():
        stripped = line.lstrip(" ")
        depth = (len(line) - len(stripped)) // 2
        if stripped.startswith("- ") or ": " not in stripped and not stripped.endswith(":"):
            key = ".".join(path[:depth])
            values[key] = f"{values.get(key, '')} {stripped}".strip()
            continue
        key, _, value = stripped.partition(":")
        path = path[:depth] + [key]
        name = ".".join(path[:-1] if key == "name" and depth else path)
        if value.strip():
            values[name] = value.strip()
    return values


def config_of(run):
    """The dotted keys and values of a run's config.yaml."""
    file = run / "config.yaml"
    try:
        return flat_config(file.read_text(encoding="utf-8"))
    except ValueError as error:
        fail(65, f"{file}: expected a configuration in UTF-8, got {error}; leave this run out")


def epochs_of(run):
    """The complete epochs of metrics.jsonl; half a line at the end is still being written."""
    file = run / "metrics.jsonl"
    if not file.is_file():
        return []
    try:
        whole = file.read_text(encoding="utf-8").rpartition("\n")[0]
        epochs = [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        fail(65, f"{file}: expected a JSON object per line, got {error}; leave this run out")
    for number, epoch in enumerate(epochs, 1):
        if not (isinstance(epoch, dict) and isinstance(epoch.get("epoch"), int) and "test" in epoch and is_pass(epoch.get("train"))
                and all(epoch.get(split) is None or is_pass(epoch[split]) for split in ("test", "validation"))):
            fail(65, f"{file}:{number}: expected an epoch with its loss and accuracy, got {json.dumps(epoch)[:60]}; leave this run out")
    return epochs


def is_pass(value):
    """Whether a value is what metrics.jsonl has for training or evaluation. A loss that isn't finite is null there."""
    return isinstance(value, dict) and all(key in value and isinstance(value[key], (int, float, type(None))) for key in ("loss", "accuracy"))


def labels_of(runs):
    """A label for each run: the options in which it differs from the others, by the last part of the key if that is unambiguous, or
    else its folder. Options that only one strategy has follow from its name; options of several runs are named if they differ."""
    configs = [config_of(run) for run in runs]
    keys = dict.fromkeys(itertools.chain.from_iterable(configs))
    differing = [key for key in keys if key != "name" and len({config[key] for config in configs if key in config}) > 1]
    # Options that follow from the strategy add no information.
    if "strategy" in differing:
        differing = [key for key in differing if key not in ("devices", "threads")]
    labels = [", ".join(f"{key.rpartition('.')[2]} {config[key]}" for key in differing if key in config) for config in configs]
    names = [run.name for run in runs]
    if len(set(labels)) < len(runs) or not all(labels):
        labels = names if len(set(names)) == len(runs) else [str(run) for run in runs]
    return labels


def widths_of(count):
    """The widths of the runs' lines. Curves often coincide, because strategies compute the same, so the first line is the widest."""
    step = min(1.8, 3.6 / max(count - 1, 1))
    return [1.6 + step * (count - 1 - number) for number in range(count)]


def draw(runs, labels, target):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    matplotlib.rcParams.update({"svg.hashsalt": "dptrain", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6))
    few_epochs, widths, drawn = True, widths_of(len(runs)), {"train", "test"}
    for number, run in enumerate(runs):
        color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        epochs = epochs_of(run)
        few_epochs = few_epochs and len(epochs) <= 30
        for panel, key, scale in ((panels[0], "loss", 1), (panels[1], "accuracy", 100)):
            for split, style in STYLES.items():
                points = [(epoch["epoch"], scale * epoch[split][key]) for epoch in epochs
                          if epoch.get(split) and epoch[split][key] is not None]
                if points:
                    drawn.add(split)
                    is_marked = few_epochs and style == "-" or len(points) == 1
                    panel.plot(*zip(*points), style, color=color, alpha=OPACITY[split], linewidth=widths[number],
                               markersize=2.4 + widths[number], marker=marker if is_marked else None)
    for panel, title in zip(panels, ("Loss", "Accuracy, %")):
        panel.set_title(title, loc="left", fontweight="bold")
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        panel.grid(color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
    entries = [Line2D([], [], color="#555555", linestyle=STYLES[split], alpha=OPACITY[split], label=label)
               for split, label in (("test", "test"), ("validation", "validation"), ("train", "training")) if split in drawn]
    if len(runs) <= MOST_NAMES:
        entries += [Line2D([], [], color=COLORS[i % len(COLORS)], marker=MARKERS[i % len(MARKERS)],
                           markersize=2.4 + widths[i], linewidth=widths[i], label=label) for i, label in enumerate(labels)]
    columns = 1 if max(map(len, labels)) > 60 else 2 if max(map(len, labels)) > 25 else 4
    rows = -(-len(entries) // columns)
    figure.tight_layout(rect=(0, 0.03 + 0.05 * rows, 1, 1))
    figure.legend(handles=entries, loc="lower center", ncol=columns, frameon=False)
    # A reader sees either the old picture or the whole new one.
    unfinished = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        figure.savefig(unfinished, dpi=120, metadata={"Date": None} if target.suffix == ".svg" else None)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    plt.close(figure)


def has_ended(run):
    """Whether a run has ended. A failed run leaves a record of the failure, which its next start removes."""
    return (run / "summary.json").is_file() or any(run.glob("fault*.json"))


def draw_until_ended(arguments):
    """Draws until all runs have ended; returns how many runs there are."""
    ended = []
    while True:
        # Each run is drawn once, however often it is named.
        runs = list({run.resolve(): run for given in arguments.runs for run in runs_in(given)}.values())
        if not runs:
            fail(66, f"{arguments.runs[0]}: expected a run directory or a folder of some, found no config.yaml")
        draw(runs, labels_of(runs), arguments.target)
        # Between two runs of a comparison or a sweep, all existing runs have ended.
        if arguments.watch is None or ended == runs:
            return len(runs)
        ended = runs if all(has_ended(run) for run in runs) else []
        time.sleep(arguments.watch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: fail(64, f"{message}; --help shows the usage")
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUNS")
    parser.add_argument("-o", dest="target", required=True, type=pathlib.Path, metavar="FILE", help="curves.svg, curves.png, curves.pdf")
    parser.add_argument("--watch", type=float, metavar="SECONDS", help="draw again every so many seconds while a run hasn't ended")
    arguments = parser.parse_args()
    if arguments.watch is not None and not 0 < arguments.watch < 1e6:
        fail(64, f"--watch: expected a number of seconds over 0, got {arguments.watch}")
    if arguments.target.suffix not in (".svg", ".png", ".pdf"):
        fail(64, f"-o: expected a name that ends in .svg, .png or .pdf, got '{arguments.target}'")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        fail(69, f"{sys.executable} has no matplotlib; {sys.executable} -m pip install matplotlib, or sudo apt-get install "
                 "python3-matplotlib, which is /usr/bin/python3's, brings it")
    try:
        count = draw_until_ended(arguments)
    except OSError as error:
        fail(74, f"{error.filename2 or error.filename or arguments.target}: {error.strerror}; name a file in an existing folder with -o")
    if count > MOST_NAMES:
        print(f"plot_runs: {count} runs: the legend names at most {MOST_NAMES} of them; draw fewer runs in one picture", file=sys.stderr)
    try:
        print(f"{arguments.target}: {count} run{'s' * (count != 1)}", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the picture is written; nobody reads the output any more


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        fail(130, "stopped by SIGINT; the last complete picture is kept")
