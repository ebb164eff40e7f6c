#!/usr/bin/env python3
# Usage: scripts/bench_gpu.py CASE --binary BINARY --result FILE [--library-path PATH] [--rounds 3] [--limit-s 540] [--precision P]
"""Compares speed, memory and start of dptrain with PyTorch on one GPU, in turns in one run. scripts/gpu_check.sh calls it.

Every round runs dptrain, PyTorch eager, and PyTorch channels-last + compile for each precision; the figures are medians over the
rounds. dptrain trains whole epochs of synthetic samples, its loader included; PyTorch steps on one batch that is already in the GPU's
memory. Without torch the rows have only dptrain's figures. Exits 1 if dptrain failed or no round ended in time.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# SGD is the optimizer of most cases. LeNet's steps are so small that most of their time is kernel launches; PyTorch at its best
# replays a CUDA graph (reduce-overhead).
SGD = ("optimizer={name: sgd, momentum: 0.9}", "learning_rate=0.01")
PYRAMIDNET = dict(model="pyramidnet", config="pyramidnet_1gpu", settings=SGD, precisions=("bf16",), compile_mode="default",
                  # A multiple of both batch sizes.
                  dataset=dict(shape=[3, 32, 32]), samples=23040, epochs=dict(bf16=4))
# The epochs are chosen so that the measured ones, all but the first two, take seconds.
CASES = {
    "resnet18": dict(model="resnet18", config="resnet18_1gpu", settings=SGD, batch=512, precisions=("bf16", "tf32", "fp32"),
                     compile_mode="default", dataset={}, samples=60000, epochs=dict(bf16=8, tf32=6, fp32=5)),
    "lenet": dict(model="lenet", config="lenet_1cpu", settings=SGD, batch=256, precisions=("fp32",),
                  compile_mode="reduce-overhead", dataset={}, samples=60000, epochs=dict(fp32=24)),
    "pyramidnet-240": dict(PYRAMIDNET, batch=240),
    "pyramidnet-768": dict(PYRAMIDNET, batch=768),
    # Every text is as long as the model takes, as PyTorch's texts are.
    "bert": dict(model="bert", config="bert_ddp_4gpu", settings=("strategy=single", "optimizer=adam", "learning_rate=0.0001"),
                 batch=200, precisions=("bf16",), compile_mode="default", dataset=dict(full=True), samples=20000, epochs=dict(bf16=5)),
}


ONE_PROGRAM_S = 240  # a program that takes longer hangs
COMPILED_S = 400  # the limit for torch.compile with an empty cache
# The number of first epochs that aren't measured: memory is touched and plans are made when a shape first comes, and a last batch
# of another size is recorded when it comes a second time.
UNLIKE_OTHERS = 2
TRACED_UNTIL = 12  # the last step that --trace shows by default
# The line of an exception that gives the reason; lines of advice may follow it.
REASON = re.compile(r"^[\w.]+(Error|Exception|Failed|Interrupt)\b")


class Failed(Exception):
    pass


class OutOfTime(Exception):
    pass


class Bench:
    def __init__(self, arguments):
        self.a, self.case = arguments, CASES[arguments.case]
        self.batch, self.samples = arguments.batch or self.case["batch"], arguments.samples or self.case["samples"]
        self.deadline = time.monotonic() + arguments.limit_s - 5
        self.our_environment = dict(os.environ)
        if arguments.library_path:
            self.our_environment["LD_LIBRARY_PATH"] = arguments.library_path
        self.took = {}
        self.traced = set()
        self.cpu_s = 0.0  # CPU time of all threads of the last program
        self.participants = 1
        self.process = None

    def run(self, name, command, environment, watch=None, limit_s=ONE_PROGRAM_S):
        """Returns what the command printed, and the seconds until the file `watch` had a line. A command that can't end in time
        isn't started."""
        left = self.deadline - time.monotonic()
        if left < self.took.get(name, 1):
            raise OutOfTime
        start, seen = time.monotonic(), None
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = self.process = subprocess.Popen(command, stdout=out, stderr=err, env=environment, start_new_session=True)
            while True:
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                if ended:
                    process.returncode, self.cpu_s = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
                    break
                if watch and seen is None and watch.exists() and watch.stat().st_size:
                    seen = time.monotonic() - start
                if time.monotonic() > min(self.deadline, start + limit_s):
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    if time.monotonic() > self.deadline:
                        raise OutOfTime
                    raise Failed(f"killed after {limit_s} s")
                time.sleep(0.002 if watch and seen is None else 0.05)
            if watch and seen is None:
                seen = time.monotonic() - start
            # Keep the latest duration: with torch.compile, the first run fills a cache for the later ones.
            self.took[name] = time.monotonic() - start
            out.seek(0), err.seek(0)
            said, wrong = out.read(), err.read().strip().splitlines()
        if process.returncode != 0:
            if self.a.logs:
                self.a.logs.mkdir(parents=True, exist_ok=True)
                with open(self.a.logs / "bench.log", "a") as log:
                    log.write("\n".join([f"{name}: {' '.join(map(str, command))}", *wrong, f"exited with code {process.returncode}", "", ""]))
            reasons = [line for line in wrong if REASON.match(line)] or wrong
            raise Failed(reasons[-1][:300] if reasons else f"exited with code {process.returncode}")
        return said, seen

    def dptrain(self, precision):
        def command(folder, *settings):
            words = [self.a.binary, "--config", str(ROOT / "configs" / (self.case["config"] + ".yaml")), "--devices", "cuda:0",
                     "--json", "--progress", "none", "--out", folder]
            dataset = json.dumps(dict(self.case["dataset"], name="synthetic", samples=self.samples, test_samples=16))
            for setting in (f"dataset={dataset}", f"batch_size={self.batch}", f"precision={precision}", "eval_every=0",
                            "checkpoint={every_epochs: 0}", *self.case["settings"], *settings):
                words += ["--set", setting]
            return words

        with tempfile.TemporaryDirectory() as folder:
            said, _ = self.run(f"dptrain {precision}", command(folder + "/run", f"epochs={self.case['epochs'][precision]}"),
                               self.our_environment)
            epochs, cpu_s = [json.loads(line) for line in said.splitlines()], self.cpu_s
            # This is a run of its own, because a line per step costs a wait for the GPU.
            _, start = self.run("start", command(folder + "/start", "epochs=", "steps=1", "log_steps=true"), self.our_environment,
                                watch=pathlib.Path(folder) / "start" / "steps.jsonl")
            cpu_s -= self.cpu_s
            if self.a.logs and precision not in self.traced:
                self.trace(precision, command(folder + "/trace", "epochs=", f"steps={TRACED_UNTIL}"), pathlib.Path(folder) / "trace")
        steady = epochs[UNLIKE_OTHERS:]
        seconds = statistics.median(e["train"]["seconds"] for e in steady)
        peaks = [e["devices"][0]["peak_bytes"] for e in epochs]
        steps = len(epochs) * -(-self.samples // self.batch) - 1
        return dict(epoch_s=seconds, samples_per_s=epochs[0]["train"]["samples"] / seconds, start_s=start,
                    cpu_us_per_step=1e6 * cpu_s / steps if steps > 0 else None,
                    peak_bytes=max(peaks[UNLIKE_OTHERS:]), first_peak_bytes=max(peaks))

    def trace(self, precision, command, run):
        """Writes a timeline of some steps to the logs, once per precision. It is a run of its own, because tracing operators takes
        time."""
        self.traced.add(precision)
        try:
            self.run("trace", [*command, "--trace"], self.our_environment)
            self.a.logs.mkdir(parents=True, exist_ok=True)
            kept = self.a.logs / f"trace-{self.a.case}-{precision}.json"
            shutil.copyfile(run / "trace.json", kept)
            print(f"  {kept}: a timeline", flush=True)
        except (Failed, OSError) as error:
            print(f"  no timeline of {precision}: {error}", flush=True)

    def pytorch(self, precision, fast):
        command = [self.a.python, str(ROOT / "scripts" / "bench_pytorch.py"), "--model", self.case["model"],
                   "--batch", str(self.batch), "--device", self.a.peer_device, "--seconds", str(self.a.seconds), "--started", repr(time.time())]
        if self.a.peer_device == "cuda":
            command += ["--precision", precision]
        if fast:
            command += ["--fast"] + ["--compile-mode", self.case["compile_mode"]] * (self.a.peer_device == "cuda")
        said, _ = self.run(f"pytorch {precision} {fast}", command, dict(os.environ), limit_s=COMPILED_S if fast else ONE_PROGRAM_S)
        return json.loads(said.splitlines()[-1])


def median_of(rounds, who):
    """Medians of the numeric figures; None if this contestant never ran."""
    ran = [r[who] for r in rounds if "failed" not in r.get(who, {"failed": ""})]
    if not ran:
        return next((r[who] for r in rounds if who in r), None)
    numbers = {key for key, value in ran[0].items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    return {key: round(statistics.median(r[key] for r in ran), 6) for key in sorted(numbers)}


def row_of(bench, precision, rounds):
    row = dict(model=bench.case["model"], batch=bench.batch, precision=precision, samples=bench.samples, rounds=len(rounds))
    for who in ("dptrain", "pytorch", "pytorch_fast"):
        row[who] = median_of(rounds, who)

    def best(key, choose):
        values = [row[who][key] for who in ("pytorch", "pytorch_fast") if row[who] and key in row[who]]
        return choose(values) if values and "failed" not in row["dptrain"] else None

    speed, memory = best("samples_per_s", max), best("peak_bytes", min)
    row["speed_ratio"] = round(row["dptrain"]["samples_per_s"] / speed, 3) if speed else None
    row["memory_ratio"] = round(row["dptrain"]["peak_bytes"] / memory, 3) if memory else None
    return row


def write(arguments, bench, rounds, peer, seconds):
    """Writes the results; called after every program, so that ending this script loses only the program in progress. Returns
    whether all is well."""
    rows = {}
    for precision, turns in rounds.items():
        # Use the turns with the most contestants; until a turn has them all, those are incomplete.
        most = max(map(len, turns), default=0)
        whole = [turn for turn in turns if len(turn) == most and turn]
        if not whole:
            continue
        row = rows[f"{arguments.case} {precision}"] = row_of(bench, precision, whole)
        if peer:
            row["peer"] = f"{peer['peer']}, CUDA {peer.get('cuda')}, cuDNN {peer.get('cudnn')}"
        if len(whole) < arguments.rounds or most < bench.participants:
            ended = len(whole) if most == bench.participants else 0
            row["note"] = f"{ended} of {arguments.rounds} rounds ended in time"
    passed = len(rows) == len(rounds) and not any("failed" in row["dptrain"] for row in rows.values())
    arguments.result.write_text(json.dumps(dict(stage="bench", passed=passed, seconds=round(seconds, 1), rows=rows)))
    return passed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case", choices=CASES)
    p.add_argument("--binary", required=True)
    p.add_argument("--result", required=True, type=pathlib.Path)
    p.add_argument("--library-path", default="", help="where dptrain finds its libraries; PyTorch finds its own")
    p.add_argument("--python", default=sys.executable, help="an interpreter that has torch")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--limit-s", type=float, default=540)
    p.add_argument("--samples", type=int, help="of an epoch, instead of the case's")
    p.add_argument("--batch", type=int, help="instead of the case's")
    p.add_argument("--seconds", type=float, default=3, help="that PyTorch is measured for")
    p.add_argument("--precision", choices=("fp32", "tf32", "bf16"), help="alone, of those that the case has")
    p.add_argument("--logs", type=pathlib.Path, help="for all that a failing program said, and timelines of some steps of dptrain")
    p.add_argument("--peer-device", choices=("cuda", "cpu"), default="cuda", help="cpu, to try this script without a GPU")
    a = p.parse_args()
    bench, start = Bench(a), time.monotonic()
    has_torch = subprocess.run([a.python, "-c", "import torch"], capture_output=True).returncode == 0
    if not has_torch:
        print(f"  {a.python} has no torch: PyTorch's figures are not measured", flush=True)
    bench.participants = 3 if has_torch else 1

    def end_all(number, _):
        if bench.process and bench.process.returncode is None:
            os.killpg(bench.process.pid, signal.SIGKILL)
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_all)
    rounds = {precision: [] for precision in bench.case["precisions"] if a.precision in (None, precision)}
    if not rounds:
        sys.exit(f"bench_gpu: {a.case} is measured in {', '.join(bench.case['precisions'])}, not in {a.precision}")
    peer = None
    try:
        for _ in range(a.rounds):
            for precision in rounds:
                turn = {}
                rounds[precision].append(turn)
                for who in ("dptrain",) + ("pytorch", "pytorch_fast") * has_torch:
                    try:
                        turn[who] = bench.dptrain(precision) if who == "dptrain" else bench.pytorch(precision, who != "pytorch")
                    except Failed as error:
                        turn[who] = dict(failed=str(error))
                    peer = turn[who] if "peer" in turn[who] else peer
                    print("  " + json.dumps({"precision": precision, who: turn[who]}), flush=True)
                    write(a, bench, rounds, peer, time.monotonic() - start)
    except OutOfTime:
        ended = {p: sum(len(turn) == bench.participants for turn in r) for p, r in rounds.items()}
        print(f"  out of time after {', '.join(f'{n} rounds of {p}' for p, n in ended.items())}", flush=True)
    sys.exit(0 if write(a, bench, rounds, peer, time.monotonic() - start) else 1)


if __name__ == "__main__":
    main()
