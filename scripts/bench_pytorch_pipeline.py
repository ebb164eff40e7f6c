#!/usr/bin/env python3
# Usage: scripts/bench_pytorch_pipeline.py --model NAME --schedule 1f1b --cut 5,5 [--batch N] [--micro-batches N] [--fast]
"""The PyTorch peer of dptrain's pipelines: torch.distributed.pipelining over gloo, one process per device.

Prints one JSON line: samples/s on data already in memory, after warm-up, and the processes' peak memory over that after the imports,
added up. Needs torch.

    bench_pytorch_pipeline.py --model resnet18 --schedule 1f1b --cut 4,6 --batch 64 --micro-batches 4
    bench_pytorch_pipeline.py --model resnet18 --schedule interleaved --cut 3,2,2,3      # two stages per process
    bench_pytorch_pipeline.py --model resnet18 --schedule 1f1b --cut 4,6 --fast          # channels-last and torch.compile
"""
import argparse
import json
import resource
import sys
import tempfile
import time

from bench.packages import end_without

try:
    import torch
    import torch.distributed as dist
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.distributed import pipelining

    from pytorch_models import MODELS
except ImportError as missing:
    end_without(missing, __doc__)

RANKS = 2
# The last schedule is the closest that PyTorch has to zero_bubble; it takes two stages per process.
SCHEDULES = {"gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B", "interleaved": "ScheduleInterleaved1F1B",
             "interleaved_zero_bubble": "ScheduleInterleavedZeroBubble"}
IMAGES = {"resnet18": (1, 28, 28), "pyramidnet": (3, 32, 32)}


class Head(nn.Module):
    """The layers after the last block."""
    def __init__(self, net):
        super().__init__()
        self.norm, self.fc = getattr(net, "bn_out", None), getattr(net, "fc_out", None) or net.fc

    def forward(self, x):
        if self.norm is not None:
            x = F.relu(self.norm(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def units_of(net, model):
    """The units of a net, which are dptrain's stages: the first layers, each block, the head."""
    blocks = [block for name, layer in net.named_children() if name.startswith("layer") for block in layer]
    stem = nn.Sequential(net.conv1, net.bn1, *[nn.ReLU()] * (model == "resnet18"))
    return [stem, *blocks, Head(net)]


class ToChannelsLast(torch.autograd.Function):
    """Makes a stage's input channels-last, and its gradient contiguous again, because gloo sends only contiguous tensors."""
    @staticmethod
    def forward(_, x):
        return x.contiguous(memory_format=torch.channels_last)

    @staticmethod
    def backward(_, gradient):
        return gradient.contiguous()


class ChannelsLast(nn.Module):
    """A compiled part of a net that computes in channels-last between contiguous tensors."""
    def __init__(self, part, compile_mode):
        super().__init__()
        self.part = torch.compile(part.to(memory_format=torch.channels_last), mode=compile_mode)

    def forward(self, x):
        return self.part(ToChannelsLast.apply(x)).contiguous()


def peak_rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def own_stages(a, rank):
    """The stages of a rank: stage s is on rank s modulo the number of ranks."""
    units, stages, begin = units_of(MODELS[a.model](), a.model), [], 0
    for number, count in enumerate(a.cut):
        part = nn.Sequential(*units[begin:begin + count])
        begin += count
        if number % RANKS != rank:
            continue
        if a.fast:
            part = ChannelsLast(part, a.compile_mode)
        stages.append(pipelining.PipelineStage(part, number, len(a.cut), torch.device("cpu")))
    if begin != len(units):
        sys.exit(f"bench_pytorch_pipeline: expected a --cut of {a.model}'s {len(units)} stages, got {begin} in all")
    return stages


def run(rank, a, meeting):
    """Trains and measures, as one of the processes; the first one prints the result."""
    start_mb = peak_rss_mb()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    stages = own_stages(a, rank)
    optimizer = torch.optim.SGD([p for stage in stages for p in stage.submod.parameters()], 0.01, momentum=0.9)
    schedule = getattr(pipelining, SCHEDULES[a.schedule])
    schedule = schedule(stages if len(a.cut) > RANKS else stages[0], a.micro_batches, loss_fn=F.cross_entropy)
    x, y = torch.rand(a.batch, *IMAGES[a.model]), torch.randint(0, 10, (a.batch,))
    # The first stage is on the first process, and the last stage on the last process.
    arguments = [x] if rank == 0 else []
    named = dict(target=y) if rank == RANKS - 1 else {}

    def steps(count):
        """Seconds for so many steps, including the wait until all processes have finished them."""
        start = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            schedule.step(*arguments, **named, **(dict(losses=[]) if named else {}))
            optimizer.step()
        dist.barrier()
        return time.perf_counter() - start

    steps(a.warmup)
    count = torch.tensor(max(a.min_steps, round(a.seconds / steps(1))))
    dist.broadcast(count, 0)
    seconds = steps(int(count))
    memory_mb = torch.tensor(peak_rss_mb() - start_mb)
    dist.all_reduce(memory_mb)
    if rank == 0:
        print(json.dumps(dict(peer="pytorch " + torch.__version__, model=a.model, schedule=a.schedule, cut=a.cut, batch=a.batch,
                              micro_batches=a.micro_batches, fast=a.fast, ranks=RANKS,
                              samples_per_s=round(a.batch * int(count) / seconds, 1), start_mb=round(start_mb, 1),
                              memory_mb=round(memory_mb.item(), 1))), flush=True)
    dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=IMAGES, default="resnet18")
    p.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    p.add_argument("--cut", type=lambda text: [int(count) for count in text.split(",")], required=True,
                   help=f"how many of the model's stages each of the pipeline's has; more than {RANKS} are dealt out all around")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--micro-batches", type=int, default=4)
    p.add_argument("--fast", action="store_true", help="channels-last and torch.compile")
    p.add_argument("--compile-mode", default="max-autotune-no-cudagraphs", help="torch.compile's")
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--min-steps", type=int, default=5)
    p.add_argument("--seconds", type=float, default=5)
    a = p.parse_args()
    several = a.schedule.startswith("interleaved")
    if len(a.cut) % RANKS != 0 or (len(a.cut) > RANKS) != several:
        sys.exit(f"bench_pytorch_pipeline: --schedule {a.schedule} takes a --cut of {'a multiple of ' * several}{RANKS} stages"
                 f"{', at least ' + str(2 * RANKS) if several else ''}, got {len(a.cut)}")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, (a, f"file://{folder}/ranks"), RANKS)


if __name__ == "__main__":
    main()
