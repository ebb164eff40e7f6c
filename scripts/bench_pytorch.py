#!/usr/bin/env python3
# Usage: scripts/bench_pytorch.py --model NAME [--batch N] [--fast] [--ranks N] [--sharding optimizer|full|kept] [--device cuda]
#     [--precision fp32|tf32|bf16]
"""The PyTorch peer of dptrain: the reference models, trained the way a careful PyTorch user would.

Prints one JSON line: samples/s over all ranks on data already in memory, after warm-up; the process's peak memory over that after the
imports, summed over ranks; on a GPU also the peaks of its memory; the seconds from the start of the process, or from --started, to the
end of the first step. Needs torch, for bert also transformers (and a C++ compiler for --fast on a CPU).

    bench_pytorch.py --model resnet18 --batch 64
    bench_pytorch.py --model resnet18 --batch 64 --fast      # channels-last and torch.compile
    bench_pytorch.py --model bert --batch 8 --ranks 2        # DistributedDataParallel over gloo
    bench_pytorch.py --model bert --batch 8 --ranks 2 --sharding full     # fully_shard of every block
    bench_pytorch.py --model resnet18 --batch 512 --fast --device cuda --precision bf16
"""
import time

BEGUN = time.time()

import argparse  # noqa: E402
import contextlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402

from bench.packages import end_without  # noqa: E402

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F

    from pytorch_models import MODELS
except ImportError as missing:
    end_without(missing, __doc__)

# fully_shard either gathers weights again for backward, or keeps them until then.
FULLY = ("full", "kept")
# On a GPU, cuDNN computes the convolutions in either case, and tuning would take minutes.
COMPILE_MODES = {"cpu": "max-autotune-no-cudagraphs", "cuda": "default"}


def peak_rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def set_precision(precision):
    """Sets both switches that allow TF32 in an fp32 product, so that neither keeps its default."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


def bert_batch(net, count, device):
    """Tokens, 15 % of which are to be predicted, and next-sentence labels, in the form that BertForPreTraining takes."""
    config = net.config
    tokens = torch.randint(0, config.vocab_size, (count, config.max_position_embeddings), device=device)
    masked = torch.rand(tokens.shape, device=device) < 0.15
    return dict(input_ids=tokens, labels=torch.where(masked, tokens, -100),
                next_sentence_label=torch.randint(0, 2, (count,), device=device))


def loss_of(a, net, trained):
    """A call that computes the loss of one batch, always the same."""
    local = a.batch // a.ranks
    if a.model == "bert":
        batch = bert_batch(net, local, a.device)
        return lambda: trained(**batch).loss
    image = (3, 32, 32) if a.model == "pyramidnet" else (1, 28, 28)
    x, y = torch.rand(local, *image, device=a.device), torch.randint(0, 10, (local,), device=a.device)
    if a.fast:
        x = x.to(memory_format=torch.channels_last)
    return lambda: F.cross_entropy(trained(x), y)


def compile_mode(a):
    return a.compile_mode or COMPILE_MODES[a.device]


def blocks_of(net, model):
    """The parts whose weights are gathered at once."""
    if model == "bert":
        return list(net.bert.encoder.layer)
    return [block for name, layer in net.named_children() if name.startswith("layer") for block in layer]


def over_all(a, net):
    """The net as each of several ranks trains it."""
    if a.sharding not in FULLY:
        return torch.nn.parallel.DistributedDataParallel(net)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh(a.device, (a.ranks,))
    for part in (*blocks_of(net, a.model), net):
        if a.fast and part is not net:  # a graph can't include the call that gathers the next block's weights
            part.compile(mode=compile_mode(a))
        fully_shard(part, mesh=mesh, reshard_after_forward=a.sharding == "full")
    return net


def optimizer_of(a, net):
    kind, options = torch.optim.SGD, dict(lr=0.01, momentum=a.momentum)
    if a.model == "bert":
        kind, options = torch.optim.Adam, dict(lr=1e-4, fused=True)
    if a.sharding == "optimizer":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        return ZeroRedundancyOptimizer(net.parameters(), kind, **options)
    return kind(net.parameters(), **options)


def over_ranks(a, value, operation):
    """The sum or maximum of a number over the ranks."""
    if a.ranks == 1:
        return value
    one = torch.tensor(float(value))
    dist.all_reduce(one, operation)
    return one.item()


def run(rank, a, meeting):
    """Trains and measures, as one process of --ranks; rank 0 prints the result."""
    if a.model == "bert":
        import transformers  # imported before the memory is measured
    start_mb = peak_rss_mb()
    torch.set_num_threads(max(1, a.threads // a.ranks))
    set_precision(a.precision)
    torch.manual_seed(0)
    net = MODELS[a.model]().to(a.device)
    trained = net
    if a.ranks > 1:
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=a.ranks)
        if a.fast:
            net.to(memory_format=torch.channels_last)
        trained = over_all(a, net)
    elif a.fast:
        net.to(memory_format=torch.channels_last)
    if a.fast and a.sharding not in FULLY:
        trained = torch.compile(trained, mode=compile_mode(a))
    loss_of_batch, optimizer = loss_of(a, net, trained), optimizer_of(a, net)

    def precision():
        return torch.autocast(a.device, torch.bfloat16) if a.precision == "bf16" else contextlib.nullcontext()

    def steps(count):
        """Seconds for so many steps, including the wait until all ranks have finished them."""
        start = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with precision():
                loss = loss_of_batch()
            loss.backward()
            optimizer.step()
        if a.device == "cuda":
            torch.cuda.synchronize()
        if a.ranks > 1:
            dist.barrier()
        return time.perf_counter() - start

    steps(1)
    first_step_s = time.time() - a.started
    # The last of these calls tells how many steps fill the time, so that the measured steps run without checking the clock.
    steps(max(a.warmup - 1, 1))
    first_peak = torch.cuda.max_memory_allocated() if a.device == "cuda" else 0
    if a.device == "cuda":
        # While cuDNN chooses its algorithms, it takes more memory than training does.
        torch.cuda.reset_peak_memory_stats()
    count = int(over_ranks(a, max(a.min_steps, round(a.seconds / steps(1))), dist.ReduceOp.MAX))
    seconds = steps(count)
    peer = "pytorch " + torch.__version__
    if a.model == "bert":
        peer += " with transformers " + transformers.__version__
    report = dict(peer=peer, model=a.model, batch=a.batch, fast=a.fast, ranks=a.ranks, threads=a.threads,
                  device=a.device, precision=a.precision, samples_per_s=round(a.batch * count / seconds, 1),
                  start_s=round(first_step_s, 3), peak_rss_mb=round(peak_rss_mb(), 1), start_mb=round(start_mb, 1),
                  memory_mb=round(over_ranks(a, peak_rss_mb() - start_mb, dist.ReduceOp.SUM), 1))
    if a.device == "cuda":
        report.update(gpu=torch.cuda.get_device_name(), cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(),
                      peak_bytes=torch.cuda.max_memory_allocated(), first_peak_bytes=first_peak,
                      reserved_bytes=torch.cuda.max_memory_reserved())
    if rank == 0:
        print(json.dumps(report), flush=True)
    if a.ranks > 1:
        dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=MODELS, default="resnet18")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="bf16 is autocast's")
    p.add_argument("--ranks", type=int, default=1, help="processes on the CPU, with the threads and the batch split over them")
    p.add_argument("--rank", type=int, help="this process is one of --ranks, which are started one by one, on several hosts")
    p.add_argument("--meet", help="with --rank: where they meet, tcp://ADDRESS:PORT of rank 0's host; GLOO_SOCKET_IFNAME names the network")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--fast", action="store_true", help="channels-last and torch.compile")
    p.add_argument("--sharding", choices=["optimizer", *FULLY],
                   help="what the ranks divide among them: the optimizer's state, by ZeroRedundancyOptimizer; or all, by fully_shard, with weights "
                   "gathered again for backward, or kept")
    p.add_argument("--compile-mode", help="torch.compile's")
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--min-steps", type=int, default=5)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--started", type=float, default=BEGUN, help="time.time() when this process was started")
    a = p.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        sys.exit("bench_pytorch: this PyTorch finds no GPU")
    if a.device == "cpu" and a.precision == "tf32":
        sys.exit("bench_pytorch: tf32 needs --device cuda")
    if a.ranks > 1 and a.device == "cuda":
        sys.exit("bench_pytorch: --ranks needs --device cpu")
    if a.ranks == 1 and a.sharding:
        sys.exit("bench_pytorch: --sharding needs --ranks of at least 2")
    if a.batch % a.ranks != 0:
        sys.exit(f"bench_pytorch: a batch of {a.batch} can't be split over {a.ranks} ranks evenly")
    if (a.rank is None) != (a.meet is None):
        sys.exit("bench_pytorch: --rank and --meet must be given together")
    if a.ranks == 1 or a.rank is not None:
        run(a.rank or 0, a, a.meet)
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, (a, f"file://{folder}/ranks"), a.ranks)


if __name__ == "__main__":
    main()
