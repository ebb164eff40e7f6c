#!/usr/bin/env python3
# Usage: scripts/bench_hosts.py [--environments FOLDER] [--models lenet,...] [--ways 'ddp;...'] [--rates 1gbit,...] [--rounds N] [--quick] [--assert] [-o OUT]
"""Measures steps per second of two hosts over a slow link: dptrain's ways to share a step, and PyTorch DDP over gloo, in turns in one run.

The hosts are network namespaces of this machine (tests/support/namespaces.sh; as root). Each has a process with one CPU worker of one
thread. The link between them is limited to each rate in turn. Every round runs all contestants one after the other; each starts once
other processes use no more than --disturbed of the machine. Prints JSON; with -o also writes OUT.json and OUT.md. A contestant that
isn't installed is left out, and the report says so.

    scripts/setup_peers.sh FOLDER
    scripts/bench_hosts.py --environments FOLDER --rates 1gbit -o docs/results/hosts-1gbit
    scripts/bench_hosts.py --environments FOLDER --rates 100mbit --models lenet,lenet_1024,resnet18 -o docs/results/hosts-100mbit

With --assert it exits with 1 if `ddp`, with or without `overlap: next_forward`, is less than 1.5 times as fast as PyTorch over 1 Gbit/s.
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

from bench.hosts import ADDRESSES, MPI_ENVIRONMENT, NAMESPACES, hosts
from bench.machine import once_quiet
from bench.origin import origin

ROOT = pathlib.Path(__file__).resolve().parent.parent
# `batch`: samples per step on both hosts. `steps`: steps per epoch; `slow_steps` is used over links of less than 1 Gbit/s, where a
# step may take seconds. `epochs`: the first one isn't counted.
CASES = {
    "lenet": dict(batch=256, steps=40, slow_steps=40, epochs=3),
    # Over 100 Mbit/s a step computes about as long as it sends.
    "lenet_1024": dict(model="lenet", batch=1024, steps=20, slow_steps=20, epochs=3),
    "resnet18": dict(batch=64, steps=16, slow_steps=8, epochs=2),
}
OURS = {
    "ddp": "ddp",
    "ddp, no overlap": "{name: ddp, overlap: false}",
    "ddp, next_forward": "{name: ddp, overlap: next_forward}",
    "ddp, next_forward, bf16": "{name: ddp, overlap: next_forward, compress: bf16}",
    "ddp, bf16": "{name: ddp, compress: bf16}",
    "ddp, two_bit": "{name: ddp, compress: two_bit}",
    "ddp, powersgd": "{name: ddp, compress: {name: powersgd, rank: 4}}",
    "kvstore, dist_sync": "{name: kvstore, type: dist_sync}",
    # local_sgd averages weights every eighth step.
    "local_sgd": "local_sgd",
    "local_sgd, powersgd": "{name: local_sgd, compress: {name: powersgd, rank: 4}}",
}
PEER = "pytorch ddp, gloo"
# The bar for the faster of these ways, which give bit-identical weights, relative to PyTorch: the median of the rounds, over links
# of this rate.
BAR, BAR_RATE = 1.5, "1gbit"
OF_BAR = ("ddp", "ddp, next_forward")


def finished(command, environment=None):
    """stdout of a program that must succeed."""
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)} exited with code {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def dptrain(a, name, rate, model, strategy):
    """Steps per second of the main process: the median over the epochs after the first."""
    case = CASES[model]
    steps = 2 if a.quick else case["slow_steps" if rate.endswith("mbit") else "steps"]
    samples = case["batch"] * steps
    with tempfile.TemporaryDirectory() as folder:
        config = dict(model=case.get("model", model), dataset=dict(name="synthetic", shape=[1, 28, 28], samples=samples, test_samples=10),
                      devices=["cpu:0"], threads=1, batch_size=case["batch"], epochs=2 if a.quick else case["epochs"], learning_rate=0.01,
                      optimizer=dict(name="sgd", momentum=0.9), eval_every=0, checkpoint=dict(every_epochs=0))
        path = pathlib.Path(folder) / "bench.yaml"
        path.write_text(json.dumps(config))
        mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "plm_rsh_agent", f"{NAMESPACES} agent {name}", "-H",
                  ",".join(ADDRESSES[:2]), "-n", "2", a.binary, "--config", str(path), "--set", f"strategy={strategy}", "--out",
                  f"{folder}/run", "--json", "--progress", "none"]
        out = finished([NAMESPACES, "run", name, "1", *mpirun], MPI_ENVIRONMENT)
    epochs = [json.loads(line) for line in out.splitlines()]
    rates = [epoch["train"]["samples_per_s"] / case["batch"] for epoch in epochs[1:]]
    last = epochs[-1]
    return dict(steps_per_s=round(statistics.median(rates), 2), bytes_per_step=last["comm"]["bytes"] // steps,
                exposed_comm=round(last["time"]["exposed_comm_s"] / last["train"]["seconds"], 3))


def pytorch(a, name, model):
    case = CASES[model]
    python = f"{a.environments}/torch/bin/python"
    shared = [python, str(ROOT / "scripts/bench_pytorch.py"), "--model", case.get("model", model), "--batch", str(case["batch"]), "--ranks", "2",
              "--threads", "2", "--meet", f"tcp://{ADDRESSES[0]}:29511", "--seconds", str(0.5 if a.quick else a.seconds)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0"}
    with subprocess.Popen([NAMESPACES, "run", name, "2", *shared, "--rank", "1"], env=environment,
                          stdout=subprocess.DEVNULL) as other:
        try:
            out = finished([NAMESPACES, "run", name, "1", *shared, "--rank", "0"], {"GLOO_SOCKET_IFNAME": "eth0"})
        finally:
            other.terminate()
    result = json.loads(out.splitlines()[-1])
    return dict(steps_per_s=round(result["samples_per_s"] / case["batch"], 2), version=result["peer"])


def patiently(call):
    """Calls a function that may fail twice: PyTorch's processes sometimes abort when they end."""
    for _ in range(2):
        try:
            return call()
        except RuntimeError as reason:
            print(f"bench_hosts: trying again: {reason}", file=sys.stderr)
    return call()


def contestants(a, name, rate, model):
    calls = {way: (lambda strategy=strategy: dptrain(a, name, rate, model, strategy)) for way, strategy in OURS.items()
             if way in a.ways}
    if PEER in a.ways and pathlib.Path(f"{a.environments}/torch/bin/python").exists():
        calls[PEER] = lambda: patiently(lambda: pytorch(a, name, model))
    return calls


def measured_once_quiet(call, limit):
    result, others = once_quiet(call, limit)
    return dict(result, others=round(others, 3))


def measure(a):
    results = []
    with hosts() as name:
        for rate in a.rates:
            subprocess.run([NAMESPACES, "slow", name, rate], check=True)
            for model in a.models:
                rounds = []
                for number in range(a.rounds):
                    measured = {way: measured_once_quiet(call, a.disturbed)
                                for way, call in contestants(a, name, rate, model).items()}
                    print(json.dumps(dict(rate=rate, model=model, round=number + 1, **measured)), file=sys.stderr, flush=True)
                    rounds.append(measured)
                results.append(dict(rate=rate, model=model, batch=CASES[model]["batch"], rounds=rounds))
    return results


def spread(values):
    """The median, the minimum and the maximum."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def table(result):
    """The ratio of each way to ddp, and of ddp to PyTorch, always within a round."""
    rounds = result["rounds"]
    model = CASES[result["model"]].get("model", result["model"])
    lines = [f"## {model}, batch {result['batch']}, {result['rate']}", "",
             "| | steps/s | of `ddp` | of PyTorch | exposed communication | bytes a step |", "|---|---|---|---|---|---|"]
    for way in rounds[0]:
        steps = [one[way]["steps_per_s"] for one in rounds]
        beside = [one[way]["steps_per_s"] / one["ddp"]["steps_per_s"] for one in rounds]
        peer = [one[way]["steps_per_s"] / one[PEER]["steps_per_s"] for one in rounds if PEER in one]
        own = rounds[-1][way]
        lines.append(f"| {way} | {spread(steps)} | {spread(beside)} | {spread(peer) if peer else 'not installed'} | "
                     f"{own.get('exposed_comm', '')} | {own.get('bytes_per_step', '')} |")
    return lines


def below_bar(results):
    """The results that are below the bar."""
    for result in results:
        rounds = [one for one in result["rounds"] if PEER in one]
        if result["rate"] != BAR_RATE or not rounds:
            continue
        best = max(statistics.median(one[way]["steps_per_s"] / one[PEER]["steps_per_s"] for one in rounds) for way in OF_BAR)
        if best < BAR:
            yield f"{result['model']} {best:.2f}x"


def document(a, report):
    machine, results = report["machine"], report["results"]
    version = next((one[PEER]["version"] for result in results for one in result["rounds"] if PEER in one), "not installed")
    others = max(one[way]["others"] for result in results for one in result["rounds"] for way in one)
    lines = ["# Two hosts over a slow link", "",
             f"By `{report['command']}` of {report['dptrain']} on {report['date']}, {machine['cpu']}, "
             f"{machine['cores']} cores, {', '.join(machine['instruction_sets'])}. The hosts are network namespaces on this one",
             f"machine, with a process of one thread each. PyTorch: {version}. {a.rounds} rounds, in each all ways in turn: medians,",
             f"the least and the most; ratios are of one round. Before a measurement other processes took at most {others:.0%} of the machine.", ""]
    for result in results:
        lines += table(result) + [""]
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: text.split(",")  # noqa: E731
    p.add_argument("--binary", default=str(ROOT / "build/dptrain"))
    p.add_argument("--environments", default=str(ROOT / "build-peers"), help="the folder that setup_peers.sh made")
    p.add_argument("--models", type=names, default=["lenet", "resnet18"])
    p.add_argument("--ways", type=lambda text: text.split(";"), default=[*OURS, PEER],
                   help=f"some of '{';'.join([*OURS, PEER])}', ddp among them; all by default")
    p.add_argument("--rates", type=names, default=["1gbit", "100mbit"], help="of tc's")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=5, help="that PyTorch is measured for")
    p.add_argument("--disturbed", type=float, default=0.05, help="share of the machine that other processes may use")
    p.add_argument("--quick", action="store_true", help="as few steps as run: shows that all works, the figures mean nothing")
    p.add_argument("-o", "--out", help="without an ending")
    p.add_argument("--assert", dest="asserts", action="store_true", help=f"exit with 1 where ddp is below {BAR}x of PyTorch's")
    a = p.parse_args()
    for model in a.models:
        if model not in CASES:
            p.error(f"argument --models: '{model}': expected one of {', '.join(CASES)}")
    for way in a.ways:
        if way not in (*OURS, PEER):
            p.error(f"argument --ways: '{way}': expected one of {'; '.join([*OURS, PEER])}")
    if "ddp" not in a.ways:
        p.error("argument --ways: ddp is missing, with which the others are compared")
    if not os.access(a.binary, os.X_OK):
        sys.exit(f"bench_hosts: {a.binary} is missing; build dptrain first, or name it with --binary")
    results = measure(a)
    report = dict(origin(a.binary), results=results)
    print(json.dumps(report))
    if a.out:
        pathlib.Path(a.out + ".json").write_text(json.dumps(report, indent=1) + "\n")
        pathlib.Path(a.out + ".md").write_text(document(a, report))
    below = list(below_bar(results))
    if a.asserts and below:
        sys.exit(f"bench_hosts: over {BAR_RATE} ddp must be {BAR} times as fast as PyTorch's, but was only: " + ", ".join(below))


if __name__ == "__main__":
    main()
