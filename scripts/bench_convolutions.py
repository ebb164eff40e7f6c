#!/usr/bin/env python3
# Usage: scripts/bench_convolutions.py [--binary build/dptrain] [--rounds N] [--models NAME...] [-o docs/results/convolution-speed]
"""Compares every convolution of the built-in models in two ways, each in its place in a training step: as dptrain's rule computes it
(convolution: auto), and by the direct algorithm (convolution: direct).

    scripts/bench_convolutions.py -o docs/results/convolution-speed

Every round runs `dptrain bench ops` both ways, in fp32 and bf16, with all cores. A figure is the minimum over the rounds, because other
programs on the machine can only add to it. Prints JSON; with -o also writes OUT.json and OUT.md. Needs only Python's standard library.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from bench import cases
from bench.origin import origin

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ("lenet", "resnet18", "pyramidnet")
ALGORITHMS = ("auto", "direct")


def operators(options, model, precision, algorithm):
    """The rows of `dptrain bench ops --json`, and the seconds of a step."""
    case = cases.CASES[model]
    settings = dict(case.settings, devices=["cpu:0"], batch_size=case.batch, epochs=1, precision=precision, convolution=algorithm)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        json.dump(settings, config)
        config.flush()
        done = subprocess.run([options.binary, "bench", "ops", "--config", config.name, "--steps", str(options.steps), "--json"],
                              capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"bench_convolutions: {done.stderr.strip()}")
    device = json.loads(done.stdout)["devices"][0]
    return device["operators"], device["step_s"]


def pass_of(row):
    """'forward' for a row that is a convolution, with whatever is in one operator with it; None for another operator."""
    if not row["operator"].startswith("conv2d"):
        return None
    return "backward" if "backward" in row["operator"] else "forward"


def least_rows(options, model, precision):
    """By convolution: the algorithm and the seconds by the rule, and the seconds of the direct algorithm; and the seconds of the
    steps."""
    seconds, found, steps = {}, {}, {algorithm: [] for algorithm in ALGORITHMS}
    for _ in range(options.rounds):
        for algorithm in ALGORITHMS:
            rows, step_s = operators(options, model, precision, algorithm)
            steps[algorithm].append(step_s)
            for row in rows:
                if pass_of(row):
                    key = row["operator"], row["operands"]
                    seconds.setdefault((key, algorithm), []).append(row["seconds"])
                    found.setdefault(key, {})[algorithm] = row
    convolutions = []
    for key, by in found.items():
        if len(by) == len(ALGORITHMS):
            least = {algorithm: min(seconds[key, algorithm]) for algorithm in ALGORITHMS}
            convolutions.append(dict(model=model, precision=precision, operator=key[0], operands=key[1], calls=by["direct"]["calls"],
                                     way=by["auto"]["way"], flops=by["direct"]["flops"], seconds=least))
    return convolutions, {algorithm: min(values) for algorithm, values in steps.items()}


def gain(row):
    return row["seconds"]["direct"] / row["seconds"]["auto"]


def totals(rows):
    """Sums of seconds by model, precision, operator and algorithm."""
    sums = {}
    for row in rows:
        total = sums.setdefault((row["model"], row["precision"], row["operator"], row["way"]),
                                dict(seconds=dict.fromkeys(ALGORITHMS, 0.0), calls=0, least=None))
        total["calls"] += row["calls"]
        for algorithm in ALGORITHMS:
            total["seconds"][algorithm] += row["seconds"][algorithm]
        total["least"] = row if total["least"] is None or gain(row) < gain(total["least"]) else total["least"]
    return sums


def report(result):
    of = result["machine"]
    text = ["# Convolutions by the rule and directly", "",
            f"Convolutions of a training step, each where it stands in the step, on {of['cpu']} with {of['cores']} cores "
            f"({', '.join(of['instruction_sets'])}), {result['date']}: {result['dptrain']}, `convolution: auto` in turns with "
            f"`convolution: direct`, the least of {result['rounds']} rounds, of which each has medians of {result['steps']} steps. Made by `{result['command']}`. "
            "Over 1x the rule's way is the faster one.", "",
            "## Whole steps", "", "| model | precision | by the rule, ms | direct, ms | direct to the rule |", "|---|---|---|---|---|"]
    for step in result["steps_s"]:
        rule, direct = step["seconds"]["auto"], step["seconds"]["direct"]
        text.append(f"| {step['model']}, batch {step['batch']} | {step['precision']} | {1e3 * rule:.2f} | {1e3 * direct:.2f} | "
                    f"{direct / rule:.2f}x |")
    text += ["", "## By operator", "",
             "| model | precision | operator | way by the rule | calls | by the rule, ms | direct, ms | direct to the rule | the least of one shape |",
             "|---|---|---|---|---|---|---|---|---|"]
    for (model, precision, operator, way), total in totals(result["convolutions"]).items():
        least = total["least"]
        text.append(f"| {model} | {precision} | {operator} | {way} | {total['calls']} | {1e3 * total['seconds']['auto']:.2f} | "
                    f"{1e3 * total['seconds']['direct']:.2f} | {total['seconds']['direct'] / total['seconds']['auto']:.2f}x | "
                    f"{gain(least):.2f}x, {least['operands']} |")
    text += ["", "## Each of ResNet-18 and LeNet", "",
             "| model | precision | operator | operands | calls | way by the rule | GFLOP/s by the rule | GFLOP/s direct | direct to the rule |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in result["convolutions"]:
        if row["model"] != "pyramidnet":
            rates = [f"{row['flops'] / row['seconds'][algorithm] / 1e9:.0f}" for algorithm in ALGORITHMS]
            text.append(f"| {row['model']} | {row['precision']} | {row['operator']} | {row['operands']} | {row['calls']} | {row['way']} | "
                        f"{rates[0]} | {rates[1]} | {gain(row):.2f}x |")
    text += ["", "By the rule LeNet's convolutions in fp32 are one operator with the max pools behind them, and stand in the whole steps alone. "
             "GFLOP/s count the multiplications of the direct algorithm. PyramidNet's shapes are in the JSON file beside this page."]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/dptrain"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="of each run")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("-o", "--out", help="write OUT.json and OUT.md")
    options = parser.parse_args()
    if not os.access(options.binary, os.X_OK):
        sys.exit(f"bench_convolutions: {options.binary} is missing; scripts/build.sh makes it")
    result = dict(origin(options.binary), schema=1, rounds=options.rounds, steps=options.steps, steps_s=[], convolutions=[])
    for model in options.models:
        for precision in cases.PRECISIONS:
            rows, steps = least_rows(options, model, precision)
            result["convolutions"] += rows
            result["steps_s"].append(dict(model=model, batch=cases.CASES[model].batch, precision=precision, seconds=steps))
    print(json.dumps(result, indent=1))
    if options.out:
        pathlib.Path(options.out + ".json").write_text(json.dumps(result, indent=1) + "\n")
        pathlib.Path(options.out + ".md").write_text(report(result))


if __name__ == "__main__":
    main()
