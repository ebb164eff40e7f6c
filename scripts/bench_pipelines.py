#!/usr/bin/env python3
# Usage: scripts/bench_pipelines.py --environments FOLDER [--micro-batches 4,8] [--rounds N] [-o docs/results/pipeline-speed]
"""Compares dptrain's pipelines with PyTorch's on this machine's CPU: ResNet-18 in two or four stages, on two devices of one thread each.

    scripts/setup_peers.sh FOLDER
    scripts/bench_pipelines.py --environments FOLDER -o docs/results/pipeline-speed

Both sides are cut between the same blocks, so that each device has about as many multiplications. PyTorch's devices are processes over
gloo. PyTorch is measured eager, and with channels-last and torch.compile. Every round runs all contestants one after the other; ratios
are medians of the ratios within a round. Prints JSON; with -o also writes OUT.json and OUT.md. Needs only Python's standard library.
"""
import argparse
import dataclasses
import functools

from bench.arguments import add_arguments, parsed
from bench.beside import FLAVORS, OURS, introduction, run, table
from bench.cases import CASES
from bench.contestants import SCRIPTS, dptrain, length, peer

MODEL = "resnet18"
# How many of dptrain's ten stages go to each pipeline stage, by the number of pipeline stages per device.
CUTS = {1: [5, 5], 2: [3, 2, 2, 3]}
# A schedule of dptrain with its pipeline stages per device, then PyTorch's counterpart with its own.
SCHEDULES = {"gpipe": (1, "gpipe", 1), "1f1b": (1, "1f1b", 1), "zero_bubble": (1, "interleaved_zero_bubble", 2),
             "interleaved": (2, "interleaved", 2)}
DEVICES = ["cpu:0", "cpu:1"]


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


def document(report):
    peers = ("`compiled` is channels-last and torch.compile. Beside `zero_bubble` stands `ScheduleInterleavedZeroBubble`, with two stages a "
             "process")
    text = ["# Pipelines beside PyTorch's", "", introduction(report, f"ResNet-18 in fp32, batch {CASES[MODEL].batch}, in stages", peers)]
    for case in report["cases"]:
        text += ["", f"## {case['micro_batches']} micro-batches", "", *table(case, "schedule")]
    return "\n".join(text) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p, rounds=3)
    p.add_argument("--micro-batches", type=lambda text: [int(count) for count in text.split(",")], default=[4, 8])
    a = parsed(p)
    run(a, [(dict(micro_batches=count), contestants(a, count)) for count in a.micro_batches], SCHEDULES, document)


if __name__ == "__main__":
    main()
