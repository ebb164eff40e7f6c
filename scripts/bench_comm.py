#!/usr/bin/env python3
# Usage: scripts/bench_comm.py [--environments FOLDER | --without-peers] [--rounds N] [--assert] [-o docs/results/comm-speed]
"""Measures the collectives of CPU workers against a memcpy of as many bytes, and against the all-reduce of MPI and gloo on this machine.

    scripts/setup_peers.sh FOLDER
    scripts/setup.sh
    scripts/bench_comm.py --environments FOLDER --assert -o docs/results/comm-speed

Every round runs all contestants one after the other. dptrain's ranks are threads of one process; those of MPI and gloo are processes.
Successive calls use different buffers, together at least twice the last-level cache. A contestant that isn't installed is left out,
and the report says so. Prints JSON; with -o also writes OUT.json and OUT.md. With --assert it exits with 1 if dptrain's all-reduce
takes more than twice as long as the memcpy; --without-peers measures only these two. Needs only Python's standard library.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from bench.origin import origin

ROOT = pathlib.Path(__file__).resolve().parent.parent
BYTES = 25 << 20
RANKS = (2, 4)
REPEATS = 20
MOST_COPIES = 2


def lines_of(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return done.stdout


def median_of(command, **options):
    return statistics.median(float(line) for line in lines_of(command, **options).split())


def buffer_sets(ranks):
    """The number of buffers that together are twice the last-level cache."""
    cache = os.sysconf("SC_LEVEL3_CACHE_SIZE") if "SC_LEVEL3_CACHE_SIZE" in os.sysconf_names else 0
    return 1 + 2 * (cache or 64 << 20) // (ranks * BYTES)


class Contestants:
    """The contestants that can be measured here, and why others can't."""

    def __init__(self, binary, environments, work, without_peers):
        self.binary, self.absent = binary, {}
        self.gloo = self.mpi = None
        if without_peers:
            self.absent = dict.fromkeys(("gloo", "MPI"), "--without-peers")
            return
        python = pathlib.Path(environments or "absent") / "torch/bin/python"
        self.gloo = python if python.exists() else None
        if self.gloo is None:
            self.absent["gloo"] = "no PyTorch; scripts/setup_peers.sh FOLDER installs it, --environments FOLDER names it"
        if shutil.which("mpicc") and shutil.which("mpirun"):
            self.mpi = pathlib.Path(work) / "all_reduce_mpi"
            subprocess.run(["mpicc", "-O2", "-o", self.mpi, ROOT / "scripts/bench/all_reduce_mpi.c"], check=True)
        else:
            self.absent["MPI"] = "no mpicc; scripts/setup.sh installs it"

    def measure(self, ranks):
        """Seconds of an all-reduce by contestant, and the full output of dptrain."""
        command = [self.binary, "bench", "comm", "--devices", f"cpu:0-{ranks - 1}", "--mb", str(BYTES / (1 << 20)),
                   "--repeats", str(REPEATS), "--json"]
        rows = json.loads(lines_of(command))["comm"]
        ours = next(row for row in rows if row["collective"] == "all_reduce")
        seconds = {"dptrain": ours["seconds"], "memcpy": ours["copy_s"]}
        sizes = [str(BYTES), str(buffer_sets(ranks)), str(REPEATS)]
        if self.gloo:
            seconds["gloo"] = median_of([self.gloo, ROOT / "scripts/bench/all_reduce_gloo.py", str(ranks), *sizes])
        if self.mpi:
            seconds["MPI"] = median_of(
                ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", str(ranks),
                 self.mpi, *sizes])
        return seconds, rows


def is_slow(seconds):
    return seconds["dptrain"] > MOST_COPIES * seconds["memcpy"]


def slow_sentences(rows):
    return [f"{row['ranks']} ranks: the all-reduce of {BYTES >> 20} MiB took {1e3 * row['seconds']['dptrain']:.2f} ms, "
            f"{row['seconds']['dptrain'] / row['seconds']['memcpy']:.2f}x of the memcpy's {1e3 * row['seconds']['memcpy']:.2f} ms; "
            f"expected at most {MOST_COPIES}x" for row in rows if is_slow(row["seconds"])]


def report(result):
    names = ["dptrain", "memcpy", "MPI", "gloo"]
    text = [
        "# Collectives of CPU workers", "",
        f"All-reduce of {BYTES >> 20} MiB of f32 over workers of one thread each, on {result['machine']['cpu']} with "
        f"{result['machine']['cores']} cores, {result['date']}: {result['dptrain']}. Medians of {result['rounds']} rounds in which "
        f"all ran in turns, of medians of {REPEATS} calls. memcpy: the same threads copy as many bytes as the all-reduce sends. "
        "dptrain's ranks are threads that add up each other's memory; those of MPI and gloo are processes, which also "
        f"copy between them. Made by `{result['command']}`. `scripts/bench_comm.py --assert` exits with code 1 and prints the figures if "
        f"dptrain's all-reduce takes more than {MOST_COPIES}x the memcpy's time.", "",
        "| ranks | " + " | ".join(f"{name}, ms" for name in names) + " | dptrain to memcpy | MPI to dptrain | gloo to dptrain |",
        "|---|" + "---|" * (len(names) + 3)]
    for row in result["all_reduce"]:
        times = row["seconds"]
        ratio = lambda a, b: f"{times[a] / times[b]:.2f}x" if a in times and b in times else "-"
        bar = f" ({'not ' * is_slow(times)}<= {MOST_COPIES}x)"
        text.append(f"| {row['ranks']} | " + " | ".join(f"{1e3 * times[n]:.2f}" if n in times else "-" for n in names) +
                    f" | {ratio('dptrain', 'memcpy')}{bar} | {ratio('MPI', 'dptrain')} | {ratio('gloo', 'dptrain')} |")
    text += ["", "## All collectives", "", "| ranks | collective | MiB of a rank's buffer | ms | GB/s sent | to memcpy |",
             "|---|---|---|---|---|---|"]
    for row in result["all_reduce"]:
        for c in row["collectives"]:
            text.append(f"| {row['ranks']} | {c['collective']} | {c['bytes'] / (1 << 20):.4g} | {1e3 * c['seconds']:.3g} | "
                        f"{c['sent_bytes'] / c['seconds'] / 1e9:.3g} | {c['seconds'] / c['copy_s']:.2f}x |")
    if result["absent"]:
        text += ["", "## Not measured", ""] + [f"- {name}: {why}" for name, why in result["absent"].items()]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", help="the folder that setup_peers.sh made")
    parser.add_argument("--binary", default=str(ROOT / "build/dptrain"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-peers", action="store_true", help="dptrain and memcpy alone")
    parser.add_argument("--assert", action="store_true", dest="is_asserted",
                        help=f"exit with 1 where dptrain's all-reduce takes more than {MOST_COPIES}x of the memcpy")
    parser.add_argument("-o", "--out", help="write OUT.json and OUT.md")
    options = parser.parse_args()
    if not os.access(options.binary, os.X_OK):
        sys.exit(f"bench_comm: {options.binary} is missing; scripts/build.sh makes it")
    with tempfile.TemporaryDirectory() as work:
        contestants = Contestants(options.binary, options.environments, work, options.without_peers)
        rounds = [{ranks: contestants.measure(ranks) for ranks in RANKS} for _ in range(options.rounds)]
    rows = []
    for ranks in RANKS:
        seconds = {name: statistics.median(one[ranks][0][name] for one in rounds) for name in rounds[0][ranks][0]}
        rows.append(dict(ranks=ranks, seconds=seconds, collectives=rounds[-1][ranks][1]))
    result = dict(origin(options.binary), schema=1, rounds=options.rounds, all_reduce=rows, absent=contestants.absent)
    print(json.dumps(result))
    if options.out:
        pathlib.Path(options.out + ".json").write_text(json.dumps(result, indent=1) + "\n")
        pathlib.Path(options.out + ".md").write_text(report(result))
    slow = slow_sentences(rows) if options.is_asserted else []
    sys.exit("\n".join(f"bench_comm: {sentence}" for sentence in slow) or 0)


if __name__ == "__main__":
    main()
