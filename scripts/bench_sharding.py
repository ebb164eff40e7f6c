#!/usr/bin/env python3
# Usage: scripts/bench_sharding.py --environments FOLDER [--models bert,resnet18] [--rounds N] [-o docs/results/sharding-speed]
"""Compares dptrain's sharding with PyTorch's: no sharding (ddp), the optimizer's state, or weights and gradients as well (fsdp).

    scripts/setup_peers.sh FOLDER
    scripts/bench_sharding.py --environments FOLDER -o docs/results/sharding-speed

Runs on this machine's CPU, over two devices of one thread each. PyTorch's devices are processes over gloo. PyTorch is measured eager,
and with channels-last and torch.compile. Every round runs all contestants one after the other; ratios are medians of the ratios within
a round. Prints JSON; with -o also writes OUT.json and OUT.md. Needs only Python's standard library.
"""
import argparse
import dataclasses
import functools

from bench.arguments import add_arguments, parsed
from bench.beside import FLAVORS, OURS, introduction, run, table
from bench.cases import CASES
from bench.contestants import dptrain, pytorch

# A strategy of dptrain, and the --sharding of bench_pytorch.py that it is compared with.
WAYS = {"ddp": ("ddp", None), "ddp, shard_optimizer": (dict(name="ddp", shard_optimizer=True), "optimizer"), "fsdp": ("fsdp", "full"),
        "fsdp, reshard_after_forward: false": (dict(name="fsdp", reshard_after_forward=False), "kept")}
DEVICES = ["cpu:0", "cpu:1"]


def contestants(a, model):
    """(way, whose) -> the call that measures it, in the order of a round."""
    calls = {}
    for way, (strategy, sharding) in WAYS.items():
        case = dataclasses.replace(CASES[model], settings=dict(CASES[model].settings, strategy=strategy))
        calls[way, OURS] = functools.partial(dptrain, case, a, DEVICES, "fp32", False)
        divided = ["--sharding", sharding] if sharding else []
        for flavor, arguments in FLAVORS.items():
            calls[way, flavor] = functools.partial(pytorch, model, case, a, ["--ranks", str(len(DEVICES)), *divided, *arguments], "fp32")
    return calls


def optimizer_of(case):
    optimizer = case.settings["optimizer"]
    return optimizer if isinstance(optimizer, str) else optimizer["name"]


def document(report):
    peers = ("`DistributedDataParallel`; the same with `ZeroRedundancyOptimizer`; `fully_shard` of every block, with `reshard_after_forward` "
             "and without; `compiled` is channels-last and torch.compile, of the whole model or of every block")
    text = ["# Sharded training beside PyTorch's", "", introduction(report, "In fp32", peers)]
    for case in report["cases"]:
        of = CASES[case["model"]]
        text += ["", f"## {case['model']}, batch {of.batch}, {optimizer_of(of)}", "", *table(case, "strategy")]
    return "\n".join(text) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p, rounds=3)
    p.add_argument("--models", type=lambda text: text.split(","), default=["bert", "resnet18"])
    a = parsed(p)
    if unknown := [model for model in a.models if model not in CASES]:
        p.error(f"--models: expected some of {', '.join(CASES)}, got {', '.join(unknown)}")
    run(a, [(dict(model=model), contestants(a, model)) for model in a.models], WAYS, document)


if __name__ == "__main__":
    main()
