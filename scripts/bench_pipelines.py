#!/usr/bin/env python3
# Usage: scripts/bench_pipelines.py --environments FOLDER [--micro-batches 4,8] [--rounds N] [-o docs/results/pipeline-speed]
"""dptrain's pipelines beside PyTorch's on this machine's CPU: ResNet-18 in two stages, or four, on two devices of a thread each.

    scripts/setup_peers.sh FOLDER
    scripts/bench_pipelines.py --environments FOLDER -o docs/results/pipeline-speed

Both sides are cut between the same blocks, which have about as many multiplications on each device. PyTorch's devices are processes,
over gloo; it is measured as it comes and with channels-last and torch.compile. Every round runs all contestants one after the other;
ratios are medians of those within a round. Prints JSON; with -o also writes OUT.json and OUT.md. Needs nothing but Python's standard
library itself.
"""
import argparse
import dataclasses
import functools
import json
import statistics
import sys

from bench.arguments import add_arguments, parsed, write
from bench.cases import CASES
from bench.contestants import SCRIPTS, Absent, dptrain, length, peer
from bench.machine import undisturbed
from bench.origin import origin

MODEL = "resnet18"
# Of its ten stages, by the pipeline's on a device.
CUTS = {1: [5, 5], 2: [3, 2, 2, 3]}
# A schedule of ours, beside what PyTorch has of it, with so many stages a device each.
SCHEDULES = {"gpipe": (1, "gpipe", 1), "1f1b": (1, "1f1b", 1), "zero_bubble": (1, "interleaved_zero_bubble", 2),
             "interleaved": (2, "interleaved", 2)}
FLAVORS = {"eager": [], "compiled": ["--fast"]}
OURS, DEVICES = "dptrain", ["cpu:0", "cpu:1"]


def ours(a, schedule, micro_batches):
    of_device = SCHEDULES[schedule][0]
    strategy = dict(name="model_parallel", schedule=schedule, stages=CUTS[of_device], micro_batches=micro_batches)
    case = dataclasses.replace(CASES[MODEL], settings=dict(CASES[MODEL].settings, strategy=strategy))
    return functools.partial(dptrain, case, a, DEVICES, "fp32", False)


def theirs(a, schedule, micro_batches, arguments):
    _, name, of_device = SCHEDULES[schedule]
    return functools.partial(peer, [f"{a.environments}/torch/bin/python", str(SCRIPTS / "bench_pytorch_pipeline.py"), "--model", MODEL,
                                    "--schedule", name, "--cut", ",".join(map(str, CUTS[of_device])), "--batch", str(CASES[MODEL].batch),
                                    "--micro-batches", str(micro_batches), *arguments, *length(a)])


def contestants(a, micro_batches):
    """(schedule, whose) -> the call that measures it, in the order of a round."""
    calls = {}
    for schedule in SCHEDULES:
        calls[schedule, OURS] = ours(a, schedule, micro_batches)
        for flavor, arguments in FLAVORS.items():
            calls[schedule, flavor] = theirs(a, schedule, micro_batches, arguments)
    return calls


def measure(a, micro_batches):
    """Rounds of what takes part, and why the others don't."""
    calls, absent, rounds = contestants(a, micro_batches), {}, []
    for number in range(a.rounds):
        measured = {}
        for key, call in list(calls.items()):
            try:
                measured[key] = undisturbed(call, a.disturbed)
            except Absent as why:
                del calls[key]
                absent[" ".join(key)] = str(why)
            print(json.dumps(dict(micro_batches=micro_batches, round=number + 1, of=" ".join(key), **measured.get(key, {}))),
                  file=sys.stderr, flush=True)
        rounds.append(measured)
    # What dropped out in a later round has no figures of the earlier ones either.
    return [{key: one for key, one in measured.items() if key in calls} for measured in rounds], absent


def row(rounds, schedule):
    """Medians of each, and of the ratio to PyTorch's best of the same schedule, and to its best of all."""
    keys = [(schedule, whose) for whose in (OURS, *FLAVORS)]
    speed = {whose: round(statistics.median(one[schedule, whose]["samples_per_s"] for one in rounds), 1)
             for _, whose in keys if (schedule, whose) in rounds[0]}
    memory = {whose: round(statistics.median(one[schedule, whose]["memory_mb"] for one in rounds)) for whose in speed}

    def ratio(is_peer):
        of_rounds = [one[schedule, OURS]["samples_per_s"] / max(measured["samples_per_s"] for key, measured in one.items() if is_peer(key))
                     for one in rounds if any(map(is_peer, one))]
        return round(statistics.median(of_rounds), 2) if of_rounds else None

    return dict(schedule=schedule, samples_per_s=speed, memory_mb=memory,
                to_same=ratio(lambda key: key[0] == schedule and key[1] != OURS), to_best=ratio(lambda key: key[1] != OURS))


def document(report):
    machine = report["machine"]
    text = [
        "# Pipelines beside PyTorch's", "",
        f"ResNet-18 in fp32, batch {CASES[MODEL].batch}, in stages on two devices of a thread each, on {machine['cpu']} with "
        f"{machine['cores']} cores, {report['date']}: {report['dptrain']}, {', '.join(report['versions']) or 'PyTorch not installed'}. Medians of "
        f"{report['rounds']} rounds in which all ran in turns. PyTorch's devices are processes over gloo; `compiled` is channels-last and "
        "torch.compile. Beside `zero_bubble` stands `ScheduleInterleavedZeroBubble`, with two stages a process. Memory is what the "
        f"process, or both, took beyond their start. Made by `{report['command']}`."]
    for case in report["cases"]:
        text += ["", f"## {case['micro_batches']} micro-batches", "",
                 "| schedule | dptrain, samples/s | PyTorch eager | PyTorch compiled | to its best of the schedule | to its best of all | "
                 "dptrain, MB | PyTorch eager | PyTorch compiled |", "|---" * 9 + "|"]
        for of in case["schedules"]:
            cells = [f"`{of['schedule']}`"]
            for values in (of["samples_per_s"], of["memory_mb"]):
                cells += [f"{values[whose]:g}" if whose in values else "-" for whose in (OURS, *FLAVORS)]
                if values is of["samples_per_s"]:
                    cells += ["-" if of[ratio] is None else f"{of[ratio]:.2f}x" for ratio in ("to_same", "to_best")]
            text.append("| " + " | ".join(cells) + " |")
        text += [f"\nNot measured: {name}: {why}" for name, why in case["absent"].items()]
    return "\n".join(text) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p, rounds=3)
    p.add_argument("--micro-batches", type=lambda text: [int(count) for count in text.split(",")], default=[4, 8])
    a = parsed(p)
    report = dict(origin(a.binary), schema=1, versions=[], rounds=a.rounds, disturbed=a.disturbed, cases=[])
    for micro_batches in a.micro_batches:
        rounds, absent = measure(a, micro_batches)
        report["versions"] = sorted({*report["versions"], *(one["peer"] for of in rounds for one in of.values() if "peer" in one)})
        report["cases"].append(dict(
            micro_batches=micro_batches, absent=absent, schedules=[row(rounds, schedule) for schedule in SCHEDULES],
            rounds=[{" ".join(key): one for key, one in measured.items()} for measured in rounds]))
        if a.out:
            write(report, document(report), a.out)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
