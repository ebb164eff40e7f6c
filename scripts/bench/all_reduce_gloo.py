#!/usr/bin/env python3
# Usage: scripts/bench/all_reduce_gloo.py RANKS BYTES SETS REPEATS      rank 0 prints the seconds of each call, one per line
"""Measures gloo's all-reduce of floats between processes, through PyTorch, for scripts/bench_comm.py."""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, ranks, path, size, sets, repeats):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
    buffers = [torch.zeros(size // 4) for _ in range(sets)]
    for i in range(repeats):
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(buffers[i % sets])
        dist.barrier()
        if rank == 0:
            print(f"{time.perf_counter() - begun:.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, size, sets, repeats = map(int, sys.argv[1:5])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, args=(ranks, os.path.join(folder, "meet"), size, sets, repeats), nprocs=ranks)
