#!/usr/bin/env python3
# Usage: scripts/scaling.py predict [--build FOLDER]
#        scripts/scaling.py check [--build FOLDER] [--hosts] [--models M ...] [--workers N ...] [--strategies S ...] [--rounds N]
#                                 [--assert] [-o FILE.json]
"""Prints what `dptrain plan` predicts for many devices, or checks its predictions against measurements on this machine over slowed links.

    scripts/scaling.py predict > tables.md
    scripts/scaling.py check --assert
    scripts/scaling.py check --strategies all --workers 2 --assert
    sudo scripts/scaling.py check --hosts --assert

`predict` prints the tables of docs/scaling.md; nothing is trained. `check` trains LeNet and ResNet-18 on 1 to 8 CPU workers over links
that are limited to a rate. In turns, it plans the same runs from the time of each operator and a run of ddp without slow links. It
prints both as a table. With --hosts, as root, it does this on two and four processes in network namespaces of their own. --strategies
checks other strategies. A round in which other processes took more than --disturbed of the machine is measured again, up to three times
as many rounds in all. With --assert it exits with 1 if the median of the rounds' ratios is off by more than 15 %. Needs only Python's
standard library.
"""
import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import typing

from bench import machine
from bench.hosts import ADDRESSES, MPI_ENVIRONMENT, NAMESPACES, hosts
from bench.origin import origin

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_DIFFERENCE = 0.15

# For each model: a configuration, the shape of its synthetic samples (that of the real data set), the samples per device, and the
# precision.
MODELS = {
    "LeNet": ("lenet_1cpu", "shape: [1, 28, 28]", 64, "fp32"),
    "ResNet-18": ("resnet18_2gpu", "shape: [1, 28, 28]", 128, "bf16"),
    "PyramidNet": ("pyramidnet_ddp_4gpu", "shape: [3, 32, 32]", 32, "bf16"),
    "BERT": ("bert_ddp_4gpu", "", 60, "bf16"),
}
COUNTS = (8, 16, 64, 512, 4096)
LINKS = {"100 Gbit/s": "h200_100g", "200 Gbit/s": "h200_200g", "400 Gbit/s": "h200_400g", "8 x 400 Gbit/s": "h200_8x400g"}
STRATEGIES = {
    "`ddp`": "ddp",
    "`ddp`, deterministic": "ddp",
    "`ddp`, bf16": "{name: ddp, compress: bf16}",
    "`ddp`, powersgd": "{name: ddp, compress: {name: powersgd, rank: 4}}",
    "`ddp`, two_bit": "{name: ddp, compress: two_bit}",
    "`ddp`, shard_optimizer": "{name: ddp, shard_optimizer: true}",
    "`kvstore`": "kvstore",
    "`kvstore`, dist_sync": "{name: kvstore, type: dist_sync}",
    "`hybrid`": "{name: hybrid, model_parallel: 2, micro_batches: 8}",
    "`data_parallel`": "data_parallel",
}


class Dptrain:
    def __init__(self, build):
        self.binary = pathlib.Path(build).resolve() / "dptrain"
        if not self.binary.exists():
            sys.exit(f"scaling: {self.binary} is missing; build it, or name its folder with --build")

    def run(self, *arguments, prefix=(), environment=None):
        done = subprocess.run([*prefix, self.binary, *map(str, arguments)], capture_output=True, text=True, timeout=3600,
                              env={**os.environ, **(environment or {})})
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
        return done.stdout

    def plan(self, *arguments):
        return json.loads(self.run("plan", "--json", *arguments))


def set_flags(**values):
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def synthetic(shape, samples):
    return "{name: synthetic, " + (f"{shape}, " if shape else "") + f"samples: {samples}" + "}"


def table(header, rows):
    return "\n".join(["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
                     + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


@functools.cache
def planned_step(dptrain, model, count, links, strategy="ddp", samples=None, deterministic=False):
    """The plan of one of MODELS on `count` H200s; None if the strategy doesn't support so many. `samples`: per device."""
    config, shape, usual_samples, precision = MODELS[model]
    samples = samples or usual_samples
    flags = set_flags(dataset=synthetic(shape, samples * count), batch_size="", per_device_batch_size=samples, accumulate=1,
                      precision=precision, strategy=strategy, deterministic=str(deterministic).lower())
    # For one host, only the speed of host memory is used of the links file.
    where = ["--links", ROOT / "configs" / "links" / f"{links}.yaml"]
    try:
        return dptrain.plan("--config", config, "--devices", f"{count}xh200", *where, *flags)
    except RuntimeError as reason:
        # data_parallel stays in one process; two_bit adds up at most 1024 ranks.
        if not any(words in str(reason) for words in ("works across", "at most 1024 devices")):
            raise
        return None


def samples_per_s(plan):
    return plan["time"]["samples_per_s"] / plan["world_size"]


def predict_links(dptrain, model):
    rows, one = [], None
    for count in COUNTS:
        row = [str(count)]
        for links in LINKS.values():
            plan = planned_step(dptrain, model, count, links)
            one = one or samples_per_s(plan)
            row.append(f"{1e3 * plan['time']['step_s']:.2f} ms, {100 * samples_per_s(plan) / one:.0f} %")
        rows.append(row)
    return table(["H200s", *LINKS], rows)


def plans_of_strategies(dptrain, model, count, links):
    """The plans by name of the strategy; None for a strategy that doesn't support so many devices."""
    return {name: planned_step(dptrain, model, count, links, strategy, deterministic="deterministic" in name)
            for name, strategy in STRATEGIES.items()}


def predict_fastest(dptrain, model):
    """The fastest strategies over each of LINKS."""
    rows = []
    for count in COUNTS:
        row = [str(count)]
        for links in LINKS.values():
            plans = plans_of_strategies(dptrain, model, count, links)
            seconds = {name: plan["time"]["step_s"] for name, plan in plans.items() if plan}
            best = min(seconds, key=seconds.get)
            row.append(f"{best}: {1e3 * seconds[best]:.2f}")
        rows.append(row)
    return table(["H200s", *LINKS], rows)


def predict_strategies(dptrain, model, links):
    rows = []
    for count in COUNTS:
        plans = plans_of_strategies(dptrain, model, count, links)
        best = min(plan["time"]["step_s"] for plan in plans.values() if plan)
        cells = []
        for plan in plans.values():
            seconds = plan and plan["time"]["step_s"]
            text = f"{1e3 * seconds:.2f}" if plan else "-"
            cells.append(f"**{text}**" if seconds == best else text)
        rows.append([str(count), *cells])
    return table(["H200s", *STRATEGIES], rows)


def predict_samples(dptrain, model, count, links):
    rows = []
    for samples in (128, 256, 512):
        plan = planned_step(dptrain, model, count, links, samples=samples)
        waits = max(rank["time"]["exposed_comm_s"] for rank in plan["ranks"])
        rows.append([str(samples), f"{1e3 * plan['time']['step_s']:.2f} ms", f"{1e3 * waits:.2f} ms",
                     f"{samples_per_s(plan):,.0f}"])
    return table(["samples a GPU", "a step", "of it waiting", "samples/s a GPU"], rows)


def predict_d2l(dptrain):
    """The plan for ResNet-18 on as many images as Fashion-MNIST has."""
    rows = []
    for batch in (256, 512, 1024, 2048, 4096, 8192):
        row = [str(batch), f"{0.1 * batch / 256:g}"]
        for kind in ("k80", "h200"):
            seconds = []
            for count in (1, 16):
                flags = set_flags(dataset=synthetic("shape: [1, 28, 28]", 60000), batch_size=batch,
                                  strategy="ddp" if count > 1 else "single", precision="fp32")
                seconds.append(dptrain.plan("--config", "resnet18_2gpu", "--devices", f"{count}x{kind}", *flags)["time"]["epoch_s"])
            row += [f"{seconds[0]:.3g}", f"{seconds[1]:.3g}", f"{seconds[0] / seconds[1]:.1f}"]
        rows.append(row)
    return table(["batch", "learning rate", "1 K80, s an epoch", "16 K80s", "speed-up", "1 H200", "16 H200s", "speed-up"], rows)


def predict(dptrain):
    for model in MODELS:
        print(f"{model}, {MODELS[model][2]} samples a device, {MODELS[model][3]}, `ddp`:\n")
        print(predict_links(dptrain, model))
    for model in MODELS:
        print(f"{model}, hosts of 8 with 400 Gbit/s, milliseconds a step:\n")
        print(predict_strategies(dptrain, model, "h200_400g"))
    for model in MODELS:
        print(f"{model}, hosts of 8, the fastest and its milliseconds a step:\n")
        print(predict_fastest(dptrain, model))
    print("ResNet-18 on 16 H200s, hosts of 8 with 400 Gbit/s, bf16, `ddp`:\n")
    print(predict_samples(dptrain, "ResNet-18", 16, "h200_400g"))
    print(predict_d2l(dptrain))


# Runs that are compared with their plans: configuration, data set, batch over all devices, and link rates in Gbit/s.
CHECKED = {
    "LeNet": ("lenet_1cpu", synthetic("shape: [1, 28, 28]", 8192), 512, (0.1, 1)),
    "ResNet-18": ("resnet18_2gpu", synthetic("shape: [1, 28, 28]", 256), 32, (1, 10)),
}
HOST_RATES = (1, 4)


class Checked(typing.NamedTuple):
    config: str
    over_processes: bool = False
    workers: int = 0  # the number of workers that it needs; 0: any number
    too_short: tuple = ()  # models with fewer stages than it needs


# The strategies that --strategies knows.
CHECKED_STRATEGIES = {
    "ddp": Checked("ddp", over_processes=True),
    "ddp, next_forward": Checked("{name: ddp, overlap: next_forward}", over_processes=True),
    "ddp, bf16": Checked("{name: ddp, compress: bf16}", over_processes=True),
    "ddp, fp16": Checked("{name: ddp, compress: fp16}", over_processes=True),
    "ddp, two_bit": Checked("{name: ddp, compress: two_bit}", over_processes=True),
    "ddp, powersgd": Checked("{name: ddp, compress: {name: powersgd, rank: 4}}", over_processes=True),
    "ddp, shard_optimizer": Checked("{name: ddp, shard_optimizer: true}", over_processes=True),
    "fsdp": Checked("fsdp", over_processes=True),
    "data_parallel": Checked("data_parallel"),
    "kvstore": Checked("kvstore"),
    "kvstore, device": Checked("{name: kvstore, type: device}", over_processes=True),
    "kvstore, dist_sync": Checked("{name: kvstore, type: dist_sync}", over_processes=True),
    "kvstore, dist_device_sync": Checked("{name: kvstore, type: dist_device_sync}", over_processes=True),
    "model_parallel, 1f1b": Checked("{name: model_parallel, micro_batches: 4, schedule: 1f1b}", over_processes=True, workers=2),
    "model_parallel, zero_bubble": Checked(
        "{name: model_parallel, micro_batches: 4, schedule: zero_bubble}", over_processes=True, workers=2
    ),
    "model_parallel, interleaved": Checked(
        "{name: model_parallel, micro_batches: 4, schedule: interleaved}", over_processes=True, workers=2, too_short=("LeNet",)
    ),
    "model_parallel, gpipe": Checked("{name: model_parallel, micro_batches: 4, schedule: gpipe}", over_processes=True, workers=2),
    "hybrid": Checked("{name: hybrid, model_parallel: 2, micro_batches: 4}", workers=4),
}
# The share of a link's rate, as tc counts it, that is data: 1448 bytes of a frame of 1514; the rest are headers of TCP, IP and
# Ethernet.
TCP_SHARE = 1448 / 1514


def measured_step(run):
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return last["train"]["seconds"] * last["global_batch"] / last["train"]["samples"]


def train(dptrain, run, flags, **options):
    """Seconds per step in the second of two epochs."""
    dptrain.run("train", *flags, "--out", run, "--overwrite", "--quiet", *set_flags(epochs=2, eval_every=0), **options)
    return measured_step(run)


class Disturbed(Exception):
    """Other processes have taken too much of the machine."""


def one_round(calibrate, cases, watched):
    """Seconds per step of each case, as planned and as measured, and the largest share of the machine that other processes took.
    The runs follow right after the run that calibrates the plans, so that a slow phase of the machine affects both."""
    row, most = {}, watched(calibrate)[1]
    for name, plan, measure in cases:
        planned = plan()["time"]["step_s"]
        measured, others = watched(measure)
        row[name] = {"planned_s": planned, "measured_s": measured}
        most = max(most, others)
    return row, most


def compared(arguments, calibrate, cases, watched):
    """Yields a row for each of `cases`, ((strategy, links), plan, measure), from as many undisturbed rounds as were asked for. The
    result is the median of the rounds' ratios, each within one round. `watched` calls a function and also returns the share of the
    machine that other processes took."""
    rounds = []
    for _ in range(3 * arguments.rounds):
        row, others = one_round(calibrate, cases, watched)
        if others <= arguments.disturbed:
            rounds.append(row)
        else:
            print(f"scaling: other processes took {others:.0%} of the machine; this round is discarded", file=sys.stderr, flush=True)
        if len(rounds) == arguments.rounds:
            break
    else:
        raise Disturbed(f"other processes disturbed {3 * arguments.rounds - len(rounds)} of {3 * arguments.rounds} rounds; run it on "
                        "a quiet machine, or allow more with --disturbed")
    for (strategy, links), _, _ in cases:
        pairs = [row[strategy, links] for row in rounds]
        yield {"strategy": strategy, "links": links, "rounds": pairs,
               "ratio": statistics.median(pair["planned_s"] / pair["measured_s"] for pair in pairs),
               **{key: statistics.median(pair[key] for pair in pairs) for key in ("planned_s", "measured_s")}}


def flags_of(model, share=1, **values):
    """The flags of a model. `share`: divides the batch, for one of so many workers."""
    config, dataset, batch, _ = CHECKED[model]
    return ["--config", config, *set_flags(dataset=dataset, batch_size=batch // share, threads=1, precision="fp32", **values)]


def strategies_of(model, arguments):
    return [name for name in arguments.strategies if model not in CHECKED_STRATEGIES[name].too_short]


def measure_operators(dptrain, model, workers, file):
    """Measures each operator on one of `workers` workers."""
    file.write_text(dptrain.run("bench", "ops", "--json", *flags_of(model, workers, strategy="single"), "--devices", "cpu:0"))


def check_threads(dptrain, folder, model, ranks, arguments):
    free, operators = folder / "free", folder / "operators.json"
    devices = ["--devices", f"cpu:0-{ranks - 1}"]

    def calibrate():
        measure_operators(dptrain, model, ranks, operators)
        return train(dptrain, free, [*flags_of(model, strategy="ddp" if ranks > 1 else "single"), *devices])

    def case(strategy, rate):
        config = CHECKED_STRATEGIES[strategy].config if ranks > 1 else "single"
        flags = [*flags_of(model, strategy=config, **({"links.gbps": rate} if rate else {})), *devices]
        return ((strategy if ranks > 1 else "single", f"{rate} Gbit/s, simulated" if rate else "none"),
                lambda: dptrain.plan(*flags, "--operators", operators, "--calibrate", free), lambda: train(dptrain, folder / "held", flags))

    strategies, rates = (strategies_of(model, arguments), CHECKED[model][3]) if ranks > 1 else (["ddp"], [None])
    return compared(arguments, calibrate, [case(strategy, rate) for strategy in strategies for rate in rates], machine.beside_others)


def check_hosts(dptrain, folder, model, workers, arguments):
    """Checks processes of one worker each, in network namespaces, over links that tc limits to a rate. The calibrating runs use
    links without a limit."""
    free, operators, comm = folder / "free", folder / "operators.json", folder / "comm.json"

    def launched(rate):
        """How processes are started over links of this rate."""
        subprocess.run([NAMESPACES, "slow", spaces, rate], check=True)
        return {"prefix": [NAMESPACES, "run", spaces, "1", ROOT / "scripts" / "launch.sh", "-H", ",".join(ADDRESSES[:workers]),
                           "--agent", f"{NAMESPACES} agent {spaces}", "--"], "environment": MPI_ENVIRONMENT}

    def train_over(rate, run, strategy):
        return train(dptrain, run, [*flags_of(model, strategy=strategy), "--devices", "cpu:0"], **launched(rate))

    def calibrate():
        measure_operators(dptrain, model, workers, operators)
        comm.write_text(dptrain.run("bench", "comm", "--devices", "cpu:0", "--mb", "0.0001,25", "--json", **launched("free")))
        return train_over("free", free, "ddp")

    def case(strategy, rate):
        config = CHECKED_STRATEGIES[strategy].config
        links = folder / f"links-{rate}.yaml"
        # The time per message is already in the measurement over links without a limit.
        links.write_text(f"hosts: {{devices: 1, gbps: {rate * TCP_SHARE}}}\n")
        flags = [*flags_of(model, strategy=config), "--devices", f"{workers}xcpu", "--links", links, "--operators", operators,
                 "--comm", comm, "--calibrate", free]
        return ((strategy, f"{rate} Gbit/s between processes"), lambda: dptrain.plan(*flags),
                lambda: train_over(f"{rate}gbit", folder / "held", config))

    cases = [case(strategy, rate) for strategy in strategies_of(model, arguments) if CHECKED_STRATEGIES[strategy].over_processes
             for rate in HOST_RATES]
    with hosts(workers) as spaces:
        yield from compared(arguments, calibrate, cases, lambda run: machine.once_quiet(run, arguments.disturbed))


def spread_of(rounds):
    """The minimum and the maximum of the rounds' ratios."""
    ratios = [pair["planned_s"] / pair["measured_s"] for pair in rounds]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def check(dptrain, arguments):
    checks = []
    for model in arguments.models:
        for workers in arguments.workers:
            if arguments.hosts and workers == 1:
                continue
            with tempfile.TemporaryDirectory() as folder:
                each = check_hosts if arguments.hosts else check_threads
                for row in each(dptrain, pathlib.Path(folder), model, workers, arguments):
                    checks.append({"model": model, "workers": workers, **row})
                    print(json.dumps(checks[-1]), file=sys.stderr, flush=True)
    print(table(["model", "workers", "strategy", "links", "planned, ms", "measured, ms", "planned to measured, median", "of the rounds"],
                [[row["model"], str(row["workers"]), row["strategy"], row["links"], f"{1e3 * row['planned_s']:.1f}",
                  f"{1e3 * row['measured_s']:.1f}", f"{row['ratio']:.2f}", spread_of(row["rounds"])] for row in checks]))
    if arguments.output:
        document = {"schema": 4, **origin(dptrain.binary), "steps": checks}
        pathlib.Path(arguments.output).write_text(json.dumps(document, indent=2) + "\n")
    beyond = [row for row in checks if abs(row["ratio"] - 1) > MOST_DIFFERENCE]
    if arguments.asserts and beyond:
        worst = max(beyond, key=lambda row: abs(row["ratio"] - 1))
        sys.exit(f"scaling: {len(beyond)} of {len(checks)} plans are over 15 % off; the worst, {worst['model']}, {worst['strategy']} on "
                 f"{worst['workers']} workers over {worst['links']}, by {100 * (worst['ratio'] - 1):+.0f} %")


def check_strategies(parser, arguments):
    """Checks the strategies. Whatever can't be measured is refused before anything is."""
    if "all" in arguments.strategies:
        arguments.strategies = [name for name, strategy in CHECKED_STRATEGIES.items()
                                if not strategy.workers or arguments.workers == [strategy.workers]]
    for name in arguments.strategies:
        workers = CHECKED_STRATEGIES[name].workers
        if workers and arguments.workers not in ([workers], [1, workers]):
            parser.error(f"argument --strategies: {name} takes {workers} workers here; use --workers {workers}")
    if arguments.hosts and not any(CHECKED_STRATEGIES[strategy].over_processes for strategy in arguments.strategies):
        parser.error(f"argument --strategies: with --hosts expected at least one strategy that can span processes, got {', '.join(arguments.strategies)}")


def main():
    parser = argparse.ArgumentParser(prog="scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("predict", "check"):
        command = commands.add_parser(name)
        command.add_argument("--build", default=ROOT / "build", help="the folder that dptrain was built in")
        if name == "check":
            command.add_argument("--hosts", action="store_true",
                                 help="processes in network namespaces instead of threads of one, as root")
            command.add_argument("--models", nargs="+", choices=CHECKED, default=list(CHECKED))
            command.add_argument("--workers", nargs="+", type=int, choices=range(1, 9), metavar="N",
                                 help="by default 1 2 4 8; with --hosts 2 4")
            command.add_argument("--strategies", nargs="+", choices=[*CHECKED_STRATEGIES, "all"], default=["ddp"], metavar="STRATEGY",
                                 help=f"by default ddp; all, or of {'; '.join(CHECKED_STRATEGIES)}. With --hosts those that reach over "
                                      "processes")
            command.add_argument("--rounds", type=int, default=3, help="of the trainings, that medians are of")
            command.add_argument("--disturbed", type=float, default=0.05,
                                 help="share of the machine that other processes may take in a round that counts, by default 0.05")
            command.add_argument("--assert", dest="asserts", action="store_true", help="exit with 1 beyond 15 %%")
            command.add_argument("-o", dest="output", metavar="FILE.json", help="also write the rows there")
    arguments = parser.parse_args()
    if arguments.command == "check" and arguments.rounds < 1:
        parser.error("argument --rounds: expected 1 or more")
    if arguments.command == "check" and arguments.hosts and arguments.workers == [1]:
        parser.error("argument --workers: with --hosts expected 2 or more, one per host")
    if arguments.command == "check" and not arguments.workers:
        arguments.workers = [2, 4] if arguments.hosts else [1, 2, 4, 8]
    if arguments.command == "check":
        check_strategies(parser, arguments)
    dptrain = Dptrain(arguments.build)
    if arguments.command == "predict":
        predict(dptrain)
    else:
        try:
            check(dptrain, arguments)
        except Disturbed as reason:
            sys.exit(f"scaling: {reason}")


if __name__ == "__main__":
    main()
