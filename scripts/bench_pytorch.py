#!/usr/bin/env python3
# Usage: scripts/bench_pytorch.py --model lenet|resnet18 [--batch N] [--fast] [--device cuda] [--precision fp32|tf32|bf16]
"""The PyTorch peer of dptrain: the reference models, trained the way a careful PyTorch user would.

Prints one JSON line: samples/s on data already in memory, after warm-up; on a GPU also the peaks of its memory; the seconds from
the start of the process, or --started, to the end of the first step. Needs torch (and a C++ compiler for --fast on a CPU).

    bench_pytorch.py --model resnet18 --batch 64
    bench_pytorch.py --model resnet18 --batch 64 --fast      # channels-last and torch.compile
    bench_pytorch.py --model resnet18 --batch 512 --fast --device cuda --precision bf16
"""
import time

BEGUN = time.time()

import argparse  # noqa: E402
import contextlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"))
from models import MODELS  # noqa: E402

# On a GPU cuDNN has the convolutions either way, and tuning takes minutes.
COMPILE_MODES = {"cpu": "max-autotune-no-cudagraphs", "cuda": "default"}


def set_precision(precision):
    """The two switches by which an fp32 product may take TF32; neither is left to its default."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=("lenet", "resnet18"), default="resnet18")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="bf16 is autocast's")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--fast", action="store_true", help="channels-last and torch.compile")
    p.add_argument("--compile-mode", help="torch.compile's")
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--min-steps", type=int, default=5)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--started", type=float, default=BEGUN, help="time.time() when this process was started")
    a = p.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        sys.exit("bench_pytorch: this PyTorch finds no GPU")
    if a.device == "cpu" and a.precision != "fp32":
        sys.exit(f"bench_pytorch: {a.precision} is for --device cuda")
    torch.set_num_threads(a.threads)
    set_precision(a.precision)
    torch.manual_seed(0)
    net = MODELS[a.model]().to(a.device)
    x, y = torch.rand(a.batch, 1, 28, 28, device=a.device), torch.randint(0, 10, (a.batch,), device=a.device)
    trained = net
    if a.fast:
        net = net.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
        trained = torch.compile(net, mode=a.compile_mode or COMPILE_MODES[a.device])
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=a.momentum)
    wait = torch.cuda.synchronize if a.device == "cuda" else lambda: None

    def precision():
        return torch.autocast(a.device, torch.bfloat16) if a.precision == "bf16" else contextlib.nullcontext()

    def steps(count):
        """Seconds for so many steps, all of them finished."""
        start = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with precision():
                loss = F.cross_entropy(trained(x), y)
            loss.backward()
            optimizer.step()
        wait()
        return time.perf_counter() - start

    steps(1)
    first_step_s = time.time() - a.started
    # The last of them tells how many steps fill the time, so that the measured ones run without a look at the clock.
    steps(max(a.warmup - 1, 1))
    count = max(a.min_steps, round(a.seconds / steps(1)))
    seconds = steps(count)
    report = dict(peer="pytorch " + torch.__version__, model=a.model, batch=a.batch, fast=a.fast, threads=a.threads,
                  device=a.device, precision=a.precision, samples_per_s=round(a.batch * count / seconds, 1),
                  start_s=round(first_step_s, 3),
                  peak_rss_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1))
    if a.device == "cuda":
        report.update(gpu=torch.cuda.get_device_name(), cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(),
                      peak_bytes=torch.cuda.max_memory_allocated(), reserved_bytes=torch.cuda.max_memory_reserved())
    print(json.dumps(report))


if __name__ == "__main__":
    main()
