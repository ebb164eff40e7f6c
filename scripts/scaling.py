#!/usr/bin/env python3
# Usage: scripts/scaling.py predict [--build FOLDER] | check [--build FOLDER] [--hosts] [--rounds N] [--assert] [-o FILE.json]
"""What `dptrain plan` predicts for many devices, and how far it is from what this machine measures over slowed links.

    scripts/scaling.py predict > tables.md
    scripts/scaling.py check --assert

`predict` prints the tables of docs/scaling.md; nothing is trained. `check` trains LeNet and ResNet-18 on 1 to 8 CPU workers over
links that are held to a rate, plans the same, calibrated by a run without slow links, and prints both as a table; with --hosts, as
root, also two and four processes in network namespaces of their own. It wants a machine that does nothing else. With --assert it
exits with 1 where a step differs by more than 15 %. Needs Python's standard library alone.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_DIFFERENCE = 0.15

# One configuration a model, its data set made up in the shape of the real one, and the samples of a device.
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
    "`ddp`, bf16": "{name: ddp, compress: bf16}",
    "`ddp`, powersgd": "{name: ddp, compress: {name: powersgd, rank: 4}}",
    "`ddp`, two_bit": "{name: ddp, compress: two_bit}",
    "`ddp`, shard_optimizer": "{name: ddp, shard_optimizer: true}",
    "`kvstore`": "kvstore",
    "`data_parallel`": "data_parallel",
}


class Dptrain:
    def __init__(self, build):
        self.binary = pathlib.Path(build).resolve() / "dptrain"
        if not self.binary.exists():
            sys.exit(f"scaling: there is no {self.binary}; build it, or name its folder with --build")

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


def planned_step(dptrain, model, count, links, strategy="ddp"):
    """The plan of one of MODELS on so many H200s; None where the strategy doesn't reach so far."""
    config, shape, samples, precision = MODELS[model]
    flags = set_flags(dataset=synthetic(shape, samples * count), batch_size="", per_device_batch_size=samples, accumulate=1,
                      precision=precision, strategy=strategy)
    where = ["--links", ROOT / "configs" / "links" / f"{links}.yaml"] if count > 8 else []
    try:
        return dptrain.plan("--config", config, "--devices", f"{count}xh200", *where, *flags)
    except RuntimeError as reason:
        # data_parallel stays in one process; two_bit adds up 1024 ranks at most.
        if not any(words in str(reason) for words in ("reaches over", "two_bit_decode")):
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


def predict_strategies(dptrain, model, links):
    rows = []
    for count in COUNTS:
        plans = {name: planned_step(dptrain, model, count, links, strategy) for name, strategy in STRATEGIES.items()}
        best = min(plan["time"]["step_s"] for plan in plans.values() if plan)
        cells = []
        for plan in plans.values():
            seconds = plan and plan["time"]["step_s"]
            text = f"{1e3 * seconds:.2f}" if plan else "-"
            cells.append(f"**{text}**" if seconds == best else text)
        rows.append([str(count), *cells])
    return table(["H200s", *STRATEGIES], rows)


def predict_d2l(dptrain):
    """ResNet-18 on as many images as Fashion-MNIST has."""
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
    print(predict_d2l(dptrain))


# What is trained to be compared with its plan: a model, a batch over all devices, rates in Gbit/s.
CHECKED = {
    "LeNet": ("lenet_1cpu", synthetic("shape: [1, 28, 28]", 8192), 512, (0.1, 1)),
    "ResNet-18": ("resnet18_2gpu", synthetic("shape: [1, 28, 28]", 256), 32, (1, 10)),
}


def measured_step(run):
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return last["train"]["seconds"] * last["global_batch"] / last["train"]["samples"]


def trained(dptrain, run, flags, rounds, **options):
    """The median step of some trainings of two epochs, the second of which counts."""
    steps = []
    for _ in range(rounds):
        dptrain.run("train", *flags, "--out", run, "--overwrite", "--quiet", *set_flags(epochs=2, eval_every=0), **options)
        steps.append(measured_step(run))
    return statistics.median(steps)


def check_threads(dptrain, folder, rounds):
    for model, (config, dataset, batch, rates) in CHECKED.items():
        for ranks in (1, 2, 4, 8):
            flags = ["--config", config, "--devices", f"cpu:0-{ranks - 1}",
                     *set_flags(dataset=dataset, batch_size=batch, threads=1, precision="fp32",
                                strategy="ddp" if ranks > 1 else "single")]
            free = folder / f"{model}-{ranks}"
            trained(dptrain, free, flags, 1)
            for rate in rates if ranks > 1 else (None,):
                held = flags + (["--set", f"links.gbps={rate}"] if rate else [])
                measured = trained(dptrain, folder / "held", held, rounds)
                planned = dptrain.plan(*held, "--calibrate", free)["time"]["step_s"]
                yield {"model": model, "ranks": ranks, "links": f"{rate} Gbit/s, simulated" if rate else "none",
                       "planned_s": planned, "measured_s": measured}


def check_hosts(dptrain, folder, rounds):
    """A process of one worker a namespace, over links that tc holds to a rate."""
    spaces, script = f"dptrain-{os.getpid()}", ROOT / "tests" / "support" / "namespaces.sh"
    config, dataset, batch, _ = CHECKED["ResNet-18"]
    for hosts in (2, 4):
        subprocess.run([script, "add", spaces, str(hosts)], check=True)
        try:
            flags = ["--config", config, *set_flags(dataset=dataset, batch_size=batch, threads=1, precision="fp32",
                                                    strategy="ddp")]
            free = folder / f"hosts-{hosts}"
            trained(dptrain, free, [*flags, "--devices", f"cpu:0-{hosts - 1}"], 1)
            for rate in (1, 4):
                subprocess.run([script, "slow", spaces, f"{rate}gbit"], check=True)
                links = folder / "links.yaml"
                links.write_text(f"hosts: {{devices: 1, latency_us: 100, gbps: {rate}}}\n")
                prefix = [ROOT / "scripts" / "launch.sh", "-H", ",".join(f"10.77.0.{i + 1}" for i in range(hosts)), "--agent",
                          f"{script} agent {spaces}", "--"]
                network = {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/24",
                           "OMPI_MCA_oob_tcp_if_include": "10.77.0.0/24"}
                measured = trained(dptrain, folder / "held", [*flags, "--devices", "cpu:0"], rounds,
                                   prefix=[script, "run", spaces, "1", *prefix], environment=network)
                planned = dptrain.plan(*flags, "--devices", f"{hosts}xcpu", "--links", links, "--calibrate", free)
                yield {"model": "ResNet-18", "ranks": hosts, "links": f"{rate} Gbit/s between processes",
                       "planned_s": planned["time"]["step_s"], "measured_s": measured}
        finally:
            subprocess.run([script, "delete", spaces], check=True)


def check(dptrain, arguments):
    rows = []
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        checks = list(check_threads(dptrain, folder, arguments.rounds))
        if arguments.hosts:
            checks += check_hosts(dptrain, folder, arguments.rounds)
        for row in checks:
            row["ratio"] = row["planned_s"] / row["measured_s"]
            rows.append([row["model"], str(row["ranks"]), row["links"], f"{1e3 * row['planned_s']:.1f}",
                         f"{1e3 * row['measured_s']:.1f}", f"{row['ratio']:.2f}"])
    print(table(["model", "workers", "links", "planned, ms", "measured, ms", "planned to measured"], rows))
    if arguments.output:
        pathlib.Path(arguments.output).write_text(json.dumps({"schema": 1, "steps": checks}, indent=2) + "\n")
    beyond = [row for row in checks if abs(row["ratio"] - 1) > MOST_DIFFERENCE]
    if arguments.asserts and beyond:
        worst = max(beyond, key=lambda row: abs(row["ratio"] - 1))
        sys.exit(f"scaling: {len(beyond)} of {len(checks)} plans are over 15 % off; the worst, {worst['model']} on {worst['ranks']} "
                 f"workers over {worst['links']}, by {100 * (worst['ratio'] - 1):+.0f} %")


def main():
    parser = argparse.ArgumentParser(prog="scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("predict", "check"):
        command = commands.add_parser(name)
        command.add_argument("--build", default=ROOT / "build", help="the folder that dptrain was built in")
        if name == "check":
            command.add_argument("--hosts", action="store_true", help="also over network namespaces, as root")
            command.add_argument("--rounds", type=int, default=3, help="trainings that the median is of")
            command.add_argument("--assert", dest="asserts", action="store_true", help="exit with 1 beyond 15 %%")
            command.add_argument("-o", dest="output", metavar="FILE.json", help="also write the rows there")
    arguments = parser.parse_args()
    dptrain = Dptrain(arguments.build)
    if arguments.command == "predict":
        predict(dptrain)
    else:
        check(dptrain, arguments)


if __name__ == "__main__":
    main()
