#!/usr/bin/env python3
# Usage: scripts/bench_pytorch.py --model lenet|resnet18 [--batch N] [--fast]
"""The PyTorch peer of dptrain: the reference models, trained the way a careful PyTorch user would.

Prints one JSON line: samples/s on data already in memory, after warm-up. Needs torch (and a C++ compiler for --fast).

    bench_pytorch.py --model resnet18 --batch 64
    bench_pytorch.py --model resnet18 --batch 64 --fast      # channels-last and torch.compile
"""
import argparse
import json
import os
import pathlib
import resource
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"))
from models import MODELS  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=("lenet", "resnet18"), default="resnet18")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--fast", action="store_true", help="channels-last and torch.compile")
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--min-steps", type=int, default=5)
    p.add_argument("--seconds", type=float, default=5)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    net = MODELS[a.model]()
    x, y = torch.rand(a.batch, 1, 28, 28), torch.randint(0, 10, (a.batch,))
    trained = net
    if a.fast:
        net = net.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
        trained = torch.compile(net, mode="max-autotune-no-cudagraphs")
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=a.momentum)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(trained(x), y).backward()
        optimizer.step()

    for _ in range(1 + a.warmup):
        step()
    start, steps = time.perf_counter(), 0
    while steps < a.min_steps or time.perf_counter() - start < a.seconds:
        step()
        steps += 1
    seconds = time.perf_counter() - start
    print(json.dumps(dict(peer="pytorch " + torch.__version__, model=a.model, batch=a.batch, fast=a.fast, threads=a.threads,
                          samples_per_s=round(a.batch * steps / seconds, 1),
                          peak_rss_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1))))


if __name__ == "__main__":
    main()
