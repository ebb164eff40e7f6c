#!/usr/bin/env python3
# Usage: scripts/bench_faults.py [--faults kill=100,stop,...] [--trials N] [--seed N] [--environments FOLDER | --without-peers] [--assert] [-o OUT]
"""Measures what a fault costs a job: processes are killed, stopped and cut off at random moments, many times, beside torchrun and mpirun.

Each trial starts a run of LeNet by scripts/launch.sh, as several processes on this machine or on two "hosts", which are network
namespaces of this machine (as root). It injects one fault at a random moment after the start, and measures how long the job takes to
notice it and to end. Then it starts the same command with --resume: the run must end with the weights of an undisturbed run. A trial
whose job ends by itself before the fault is repeated. Prints one JSON line per trial; with -o also writes OUT.json and OUT.md.

    scripts/setup_peers.sh FOLDER
    scripts/bench_faults.py --environments FOLDER --faults kill=300,kill_store,kill_on_host,kill_launcher,kill_daemon,stop,cut \
        --trials 10 --assert -o docs/results/faults

The peers are PyTorch DDP over gloo, started by torchrun, and an all-reduce in a loop, started by mpirun alone. With --assert it exits
with 1 if a job of dptrain hung, left a process behind, ended with a wrong exit code, noticed the fault too late, reported different
causes in different processes, or did not continue to the same weights.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from bench.fault_jobs import Cut, Job, Signal
from bench.hosts import ADDRESSES, MPI_ENVIRONMENT, NAMESPACES, hosts
from bench.invocation import invocation
from bench.origin import origin

ROOT = pathlib.Path(__file__).resolve().parent.parent
# dptrain's jobs: the number of processes and the arguments of scripts/launch.sh.
JOBS = {
    "one host": dict(processes=2, launch=["-n", "2"], strategy="ddp"),
    "two hosts": dict(processes=2, launch=["-H", ",".join(ADDRESSES[:2])], strategy="ddp"),
    "key-value store": dict(processes=4, launch=["-n", "2", "-s", "1"], strategy="{name: kvstore, type: dist_sync}"),
}
# `known_s`: seconds within which a job must notice the fault, from the last sign of life (docs/hosts.md).
FAULTS = {
    "kill": dict(job="one host", fault=Signal(signal.SIGKILL), known_s=1, says="kill -9 of a process"),
    "kill_store": dict(job="key-value store", fault=Signal(signal.SIGKILL), known_s=1,
                       says="kill -9 of a worker, the server or the scheduler"),
    "kill_on_host": dict(job="two hosts", fault=Signal(signal.SIGKILL), known_s=10, says="kill -9 of a process"),
    "kill_launcher": dict(job="one host", fault=Signal(signal.SIGKILL, "mpirun"), known_s=1, says="kill -9 of mpirun"),
    "kill_daemon": dict(job="two hosts", fault=Signal(signal.SIGKILL, "orted"), known_s=10,
                        says="kill -9 of what mpirun runs on the second host"),
    "stop": dict(job="one host", fault=Signal(signal.SIGSTOP), known_s=10, says="SIGSTOP of a process"),
    "cut": dict(job="two hosts", fault=Cut(), known_s=10, says="the second host's network goes down"),
}
# Faults that peers get as well, on one host.
OF_PEERS = ("kill", "stop")
PEERS = ("torchrun, PyTorch DDP over gloo", "mpirun, MPI_Allreduce")
OURS = "dptrain"
# A job that still runs after so many seconds hangs.
HANGS_S = 100
# So many trials of one fault in a row may end before the fault.
IN_VAIN = 10
TRAINING = ["--config", str(ROOT / "configs/lenet_ddp_2cpu.yaml"), "--devices", "cpu:0", "--set", "threads=1", "--set",
            "dataset={name: synthetic, shape: [1, 28, 28], samples: 640, test_samples: 64}", "--set", "batch_size=64", "--set", "epochs=",
            "--set", "eval_every=0", "--set", "checkpoint={every_epochs: 0, every_steps: 20}", "--quiet"]


class Dptrain:
    """Runs of dptrain to be injured, and the weights of an undisturbed run."""

    def __init__(self, a, job, hosts):
        self.a, self.hosts, self.job = a, hosts, JOBS[job]
        self.on = [NAMESPACES, "run", hosts, "1"] if job == "two hosts" else []
        self.agent = ["--agent", f"{NAMESPACES} agent {hosts}"] if self.on else []
        self.processes, self.program = self.job["processes"], pathlib.Path(a.binary).name[:15]
        self.environment = MPI_ENVIRONMENT if self.on else {k: v for k, v in MPI_ENVIRONMENT.items() if k.endswith(("ROOT", "CONFIRM"))}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            one = self.start(folder, "whole")
            one.wait_for_processes(self.processes)
            begun = time.monotonic()
            if one.seconds_until_over(HANGS_S, begun) is None or one.launcher.returncode != 0:
                sys.exit(f"bench_faults: an undisturbed run exited with code {one.launcher.returncode}: {(folder / 'output').read_text()[-2000:]}")
            self.seconds = time.monotonic() - begun
            one.end()
            self.hash = self.hash_of(folder / "run")

    def command(self, folder, more=()):
        return [*self.on, str(ROOT / "scripts/launch.sh"), *self.job["launch"], *self.agent, "--grace", "5", "--", self.a.binary, *TRAINING,
                "--set", f"steps={self.a.steps}", "--set", f"strategy={self.job['strategy']}", "--out", str(folder / "run"), *more]

    def start(self, folder, mark, more=()):
        return Job(self.command(folder, more), self.environment, mark, self.program, folder)

    def hash_of(self, run):
        return subprocess.run([self.a.binary, "hash", str(run)], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()

    def after(self, folder):
        """The records that the job has left, and whether it continues to the same weights."""
        records = [json.loads(file.read_text()) for file in sorted((folder / "run").glob("fault*.json"))]
        # The rank that is to blame may still run, and describes the fault in its own words.
        causes = {(one["root"]["pid"], one["root"]["cause"]) for one in records if one["rank"] is None or one["rank"] != one["root"]["rank"]}
        begun = (folder / "run" / "config.yaml").exists()
        resumed = self.start(folder, "resumed", ["--resume"])
        over = resumed.seconds_until_over(HANGS_S, time.monotonic())
        resumed.end()
        return dict(begun=begun, records=len(records), causes=len(causes),
                    detected_s=max((one["detected_s"] for one in records), default=None),
                    resumed=over is not None and resumed.launcher.returncode == 0 and self.hash_of(folder / "run") == self.hash)


class Peer:
    """Ranks that add up for ever; they are injured only once they have begun."""
    processes, hosts, seconds = 2, None, 3

    def __init__(self, command, environment, program):
        self.command, self.environment, self.program = command, environment, program

    def start(self, folder, mark):
        return Job(self.command, self.environment, mark, self.program, folder)

    def after(self, _):
        return {}


def torchrun(a):
    python = pathlib.Path(a.environments) / "torch/bin/python"
    if not python.exists():
        return None
    rank = f"exec {python} {ROOT}/scripts/bench_pytorch.py --model lenet --batch 64 --ranks 2 --rank $RANK --meet env:// --seconds 600"
    command = [str(python.parent / "torchrun"), "--nproc-per-node", "2", "--max-restarts", "0", "--no-python", "bash", "-c", rank]
    return Peer(command, {}, "python")


def mpirun(_, work):
    compiler = shutil.which("mpicc")
    if compiler is None:
        return None
    program = work / "all_reduce_mpi"
    subprocess.run([compiler, "-O2", str(ROOT / "scripts/bench/all_reduce_mpi.c"), "-o", str(program)], check=True)
    return Peer(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", str(program), "65536", "2", "100000000"], MPI_ENVIRONMENT,
                program.name)


def trial(contestant, fault, moment_s, choice):
    """Injects one fault, `moment_s` after all processes have started. None if the job was over by then."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        job = contestant.start(folder, f"{os.getpid()}-{time.monotonic_ns()}")
        struck = False
        try:
            if not job.wait_for_processes(contestant.processes):
                return None
            time.sleep(moment_s)
            victims = fault.victims(job)
            if not victims:
                return None
            pid, variables = victims[int(choice * len(victims))]
            others = [one for one in job.processes() if one != pid]
            begun = time.monotonic()
            struck = fault.strike(contestant.hosts, pid)
            if not struck:
                return None
            result = dict(moment_s=round(moment_s, 3), victim=variables.get("OMPI_COMM_WORLD_RANK", variables.get("RANK", "")),
                          gone_s=job.seconds_until_gone(others, HANGS_S, begun), over_s=job.seconds_until_over(HANGS_S, begun),
                          exit=job.launcher.returncode)
        finally:
            if struck:
                fault.heal(contestant.hosts)
            left = job.end()
        if result["exit"] == 0:
            return None  # the job had finished before it noticed
        return dict(result, left=left, **contestant.after(folder))


def defects(name, one):
    """The defects that a trial of dptrain shows."""
    if one["over_s"] is None or one["gone_s"] is None:
        yield "hung"
    if one["left"] > 0:
        yield "left a process"
    if not one["resumed"]:
        yield "did not go on to the same weights"
    # Over several hosts, while processes join, mpirun asks the processes to end that lost no process of their own host.
    if one["exit"] != 75 and (one["begun"] or name in ("kill", "kill_store")):
        yield f"exited with code {one['exit']}"
    if one["begun"] and one["records"] == 0:
        yield "left no record"
    if one["records"] > 0:
        # While processes join, a silent process is noticed only when the time to join is over.
        if one["begun"] and one["detected_s"] > FAULTS[name]["known_s"]:
            yield f"knew after {one['detected_s']} s"
        # In a cut, each side rightly blames the other.
        if one["causes"] > (2 if name == "cut" else 1):
            yield "told of several causes"


def measure(a, hosts, work):
    results = []
    chance = random.Random(a.seed)
    ours = {}
    for name, trials_of_ours in a.faults.items():
        job = FAULTS[name]["job"]
        if job not in ours:
            ours[job] = Dptrain(a, job, hosts)
        contestants = {OURS: ours[job]}
        if name in OF_PEERS and not a.without_peers:
            contestants.update({who: peer for who, peer in zip(PEERS, (torchrun(a), mpirun(a, work))) if peer is not None})
        for who, contestant in contestants.items():
            trials, in_vain = [], 0
            while len(trials) < (trials_of_ours if who == OURS else a.peer_trials):
                # A peer has begun its work by then.
                early = 0 if who == OURS else 8
                one = trial(contestant, FAULTS[name]["fault"], early + chance.uniform(0, contestant.seconds), chance.random())
                if one is None:
                    in_vain += 1
                    if in_vain > IN_VAIN:
                        sys.exit(f"bench_faults: {who} has ended by itself {in_vain} times in a row; check that it runs, or set more --steps")
                    continue
                in_vain = 0
                if who == OURS:
                    one["defects"] = list(defects(name, one))
                print(json.dumps(dict(fault=name, contestant=who, **one)), flush=True)
                trials.append(one)
            results.append(dict(fault=name, contestant=who, trials=trials))
    return results


def seconds(values):
    """The median and the maximum."""
    if None in values:
        return f"more than {HANGS_S}"
    return f"{statistics.median(values):.2f} ({max(values):.2f})" if values else ""


def row(result):
    trials, who = result["trials"], result["contestant"]
    fault = FAULTS[result["fault"]]
    codes = collections.Counter(one["exit"] for one in trials)
    exits = ", ".join("none" if code is None else f"{code}: {count}" for code, count in sorted(codes.items(), key=lambda one: -one[1]))
    known = seconds([one["detected_s"] for one in trials if one["detected_s"] is not None]) if who == OURS else "not said"
    resumed = f"{sum(one['resumed'] for one in trials)}" if who == OURS else ""
    bad = sum(bool(one["defects"]) for one in trials) if who == OURS else ""
    return (f"| {fault['says']}, {fault['job']} | {who} | {len(trials)} | {known} | {seconds([one['gone_s'] for one in trials])} | "
            f"{seconds([one['over_s'] for one in trials])} | {exits} | {resumed} | {bad} |")


def trials_by_fault(text, trials):
    """The number of trials of each fault, from "kill=100,stop"; `trials` if the text names no number."""
    counts = {}
    for item in text.split(","):
        fault, _, count = item.partition("=")
        if fault not in FAULTS:
            raise ValueError(f"'{fault}': expected one of {', '.join(FAULTS)}")
        if "=" in item and (not count.isdecimal() or int(count) == 0):
            raise ValueError(f"'{item}': expected a number of trials from 1 on, got '{count}'")
        counts[fault] = int(count) if count else trials
    return counts


def document(report):
    machine, results = report["machine"], report["results"]
    lines = ["# What a fault of a job costs", "",
             f"By `{report['command']}` of {report['dptrain']} on {report['date']}, {machine['cpu']}, "
             f"{machine['cores']} cores. Seconds are medians, with the maximum in brackets.", "",
             "- known: from the last sign of life until another process knew of the fault, as fault.json says",
             "- others gone: from the fault until every other process of the job had ended; over: until the launcher had returned",
             "- a trial of `dptrain` may begin as soon as there are processes, long before they have joined the job; "
             "every run is resumed afterwards",
             "- amiss: the job hung, left a process behind, exited with a code other than 75 (on one host at any moment, on several "
             "hosts once it trained), noticed the fault too late, reported several causes or none, or did not resume to the same weights", "",
             "| fault | | trials | known | others gone | over | exit codes | went on to the same weights | amiss |",
             "|---|---|---|---|---|---|---|---|---|"]
    return "\n".join(lines + [row(result) for result in results]) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", default=str(ROOT / "build/dptrain"))
    p.add_argument("--environments", default=str(ROOT / "build-peers"), help="the folder that setup_peers.sh made")
    p.add_argument("--without-peers", action="store_true", help="dptrain alone")
    p.add_argument("--faults", default=",".join(FAULTS), help="of " + ", ".join(FAULTS) + "; kill=100 of so many trials; all by default")
    p.add_argument("--trials", type=int, default=20, help="of each fault that says no number")
    p.add_argument("--peer-trials", type=int, default=3)
    p.add_argument("--steps", type=int, default=400, help="of the training that is injured")
    p.add_argument("--seed", type=int, default=0, help="of the moments")
    p.add_argument("-o", "--out", help="without an ending")
    p.add_argument("--assert", dest="asserts", action="store_true", help="exit with 1 where something was amiss")
    a = p.parse_args()
    try:
        a.faults = trials_by_fault(a.faults, a.trials)
    except ValueError as wrong:
        p.error(f"argument --faults: {wrong}")
    if not os.access(a.binary, os.X_OK):
        sys.exit(f"bench_faults: {a.binary} is missing; build dptrain first, or name it with --binary")
    a.binary, a.environments = os.path.abspath(a.binary), os.path.abspath(a.environments)
    with tempfile.TemporaryDirectory() as work, hosts() as name:
        results = measure(a, name, pathlib.Path(work))
    report = dict(origin(a.binary), results=results)
    if a.out:
        pathlib.Path(a.out + ".json").write_text(json.dumps(report, indent=1) + "\n")
        pathlib.Path(a.out + ".md").write_text(document(report))
    else:
        print(document(report), file=sys.stderr)
    amiss = [f"{result['fault']}: {', '.join(one['defects'])}" for result in results for one in result["trials"] if one.get("defects")]
    if a.asserts and amiss:
        sys.exit("bench_faults: " + "; ".join(amiss))


if __name__ == "__main__":
    main()
