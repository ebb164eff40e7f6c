#!/usr/bin/env python3
# Usage: scripts/bench_speed.py --python PYTHON [--rounds 5] [-o docs/results/cpu-speed]
"""Speed of dptrain against PyTorch on this machine's CPU: whole training steps, fp32, measured in turns in one run.

    bench_speed.py --python PYTHON [--rounds 5] [-o docs/results/cpu-speed]

PYTHON is an interpreter that has torch. Every round runs dptrain, PyTorch eager and PyTorch channels-last + compile one after
the other; a round during which other processes used more than --disturbed of the machine is run again. Prints JSON; with -o
also writes OUT.json and OUT.md. Needs nothing but Python's standard library itself.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = {
    "lenet": dict(config="lenet_1cpu", batch=256, samples=31 * 256, epochs=5),
    "resnet18": dict(config="resnet18_1gpu", batch=64, samples=10 * 64, epochs=4),
}


def machine_busy_s():
    """Seconds that all cores have spent on anything but idling."""
    fields = [int(f) for f in open("/proc/stat").readline().split()[1:]]
    idle = fields[3] + fields[4]
    return (sum(fields[:8]) - idle) / os.sysconf("SC_CLK_TCK"), sum(fields[:8]) / os.sysconf("SC_CLK_TCK")


def own_busy_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def undisturbed(run, limit):
    """Runs until nothing else used the machine, at most five times; returns the result and the share of others."""
    for _ in range(5):
        busy, total, own = *machine_busy_s(), own_busy_s()
        result = run()
        busy_after, total_after = machine_busy_s()
        others = (busy_after - busy - (own_busy_s() - own)) / max(total_after - total, 1e-9)
        if others <= limit:
            break
    return result, round(others, 3)


def dptrain(binary, model, case):
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "--config", case["config"], "--devices", "cpu:0", "--json", "--progress", "none", "--out", folder]
        for setting in (f"dataset={{name: mnist, limit: {case['samples']}}}", f"batch_size={case['batch']}",
                        f"epochs={case['epochs']}", "eval_every=0", "optimizer={name: sgd, momentum: 0.9}",
                        "learning_rate=0.01"):
            command += ["--set", setting]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        epochs = [json.loads(line) for line in done.stdout.splitlines()]
    # The first epoch makes the primitives and touches the memory for the first time.
    return statistics.median(e["train"]["samples_per_s"] for e in epochs[1:])


def pytorch(python, model, case, fast):
    command = [python, str(ROOT / "scripts" / "bench_pytorch.py"), "--model", model, "--batch", str(case["batch"])]
    done = subprocess.run(command + ["--fast"] * fast, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def cpu_name():
    names = [line.split(": ", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(report):
    lines = ["| model | batch | dptrain | PyTorch | PyTorch, channels-last + compile | ratio to the better |",
             "|---|---|---|---|---|---|"]
    for row in report["rows"]:
        lines.append(f"| {row['model']} | {row['batch']} | {row['dptrain']:,.0f} | {row['pytorch']:,.0f} | "
                     f"{row['pytorch_fast']:,.0f} | {row['ratio']:.2f}x |")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", default=sys.executable, help="an interpreter that has torch")
    p.add_argument("--binary", default=str(ROOT / "build" / "dptrain"))
    p.add_argument("--models", default="lenet,resnet18")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--disturbed", type=float, default=0.05, help="share of the machine that others may use in a round")
    p.add_argument("-o", "--out", help="write OUT.json and OUT.md")
    a = p.parse_args()
    rows, peer = [], ""
    for model in a.models.split(","):
        case, rounds = CASES[model], []
        for _ in range(a.rounds):
            ours, others = undisturbed(lambda: dptrain(a.binary, model, case), a.disturbed)
            eager, others_eager = undisturbed(lambda: pytorch(a.python, model, case, False), a.disturbed)
            fast, others_fast = undisturbed(lambda: pytorch(a.python, model, case, True), a.disturbed)
            peer = eager["peer"]
            rounds.append(dict(dptrain=round(ours, 1), pytorch=eager["samples_per_s"], pytorch_fast=fast["samples_per_s"],
                               others=max(others, others_eager, others_fast)))
            print(json.dumps(dict(model=model, **rounds[-1])), file=sys.stderr, flush=True)
        quiet = [r for r in rounds if r["others"] <= a.disturbed]
        if not quiet:
            sys.exit(f"bench_speed: {model}: other processes disturbed every round; run it on a quiet machine")
        row = {key: statistics.median(r[key] for r in quiet) for key in ("dptrain", "pytorch", "pytorch_fast")}
        row["ratio"] = round(statistics.median(r["dptrain"] / max(r["pytorch"], r["pytorch_fast"]) for r in quiet), 3)
        rows.append(dict(model=model, batch=case["batch"], **row, quiet_rounds=len(quiet), rounds=rounds))
    version = subprocess.run([a.binary, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    report = dict(cpu=cpu_name(), cores=len(os.sched_getaffinity(0)), peer=peer, dptrain=version, unit="samples/s, fp32",
                  date=datetime.date.today().isoformat(), rows=rows)
    print(json.dumps(report, indent=1))
    if a.out:
        out = pathlib.Path(a.out)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        out.with_suffix(".md").write_text(
            f"# Training speed on a CPU\n\nSamples/s of whole training steps, fp32, one process with {report['cores']} threads, on "
            f"{report['cpu']} with {report['cores']} cores, {report['date']}: {report['dptrain']} against {report['peer']}, "
            f"medians of {a.rounds} rounds in which both ran in turns. Made by `scripts/bench_speed.py --python PYTHON -o "
            f"docs/results/cpu-speed`.\n\n{table(report)}\n\nThe ratio is the median over the rounds of dptrain over the better "
            f"of PyTorch's two.\n")


if __name__ == "__main__":
    main()
