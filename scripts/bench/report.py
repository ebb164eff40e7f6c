"""Turns rounds into figures and ratios, and makes the document that shows them.

A round maps (name, precision, beside a busy core) to a measurement; a contestant that takes no part is in no round.
"""
import statistics

from bench.cases import CASES, MEMORY_BAR, OURS, PEERS, PRECISIONS, PYTORCH, SPEED_BARS, TITLES


def median_ratio(rounds, ours, theirs):
    """Median over the rounds of the largest `samples_per_s` of `ours` over that of `theirs`; None if one side has none."""
    ratios = []
    for measured in rounds:
        best = [max((measured[key]["samples_per_s"] for key in keys if key in measured), default=None) for keys in (ours, theirs)]
        if None not in best:
            ratios.append(best[0] / best[1])
    return round(statistics.median(ratios), 3) if ratios else None


def keys_of(names, precisions):
    return [(name, precision, False) for name in names for precision in precisions]


def summarize(model, rounds, absent):
    """A row of the report: medians of every contestant, and the ratios."""
    figures = {}
    for key in rounds[0]:
        name, precision, beside = key
        median = {field: round(statistics.median(measured[key][field] for measured in rounds), 1)
                  for field in ("samples_per_s", "memory_mb", "start_mb")}
        figures.setdefault("beside a busy core" if beside else precision, {})[name] = median
    speed = {}
    for label, precisions in (*((p, [p]) for p in PRECISIONS), ("best", PRECISIONS)):
        for name in OURS:
            speed.setdefault(label, {})[name] = median_ratio(rounds, keys_of([name], precisions), keys_of(PEERS, precisions))
    two_devices = {label: median_ratio(rounds, [("ddp", "fp32", beside)], [("single", "fp32", beside)])
                   for label, beside in (("alone", False), ("beside a busy core", True))}
    return dict(model=model, batch=CASES[model].batch, figures=figures, speed_ratio=speed, ddp_to_single=two_devices,
                memory_ratio=memory_ratios(figures.get("fp32", {})), absent=absent)


def memory_ratios(figures):
    """The ratios of dptrain's memory to PyTorch eager's and to the smallest of PyTorch's."""
    peers = {name: figures[name]["memory_mb"] for name in PYTORCH if name in figures}
    ratios = {}
    for name in OURS:
        ours = figures[name]["memory_mb"] if name in figures else None
        ratios[name] = dict(eager=round(ours / peers["pytorch"], 3) if ours and "pytorch" in peers else None,
                            smallest=round(ours / min(peers.values()), 3) if ours and peers else None)
    return ratios


def of_two_devices(figures):
    """The ratio of dptrain's memory on two devices to that of PyTorch's two processes; None if one of them wasn't measured."""
    if "ddp" not in figures or "pytorch_ddp" not in figures:
        return None
    return round(figures["ddp"]["memory_mb"] / figures["pytorch_ddp"]["memory_mb"], 3)


def figure(row, precision, name, field):
    if name in row["figures"].get(precision, {}):
        return f"{row['figures'][precision][name][field]:,.0f}"
    return row["absent"].get(f"{name} {precision}", "").split(":")[0] or "-"


def ratio(value, bars=(), least=True):
    """The ratio as text, and for each bar whether it is met."""
    if value is None:
        return "-"
    sign = ">=" if least else "<="
    told = [f"{'' if (value >= bar if least else value <= bar) else 'not '}{sign} {bar}x" for bar in bars]
    return f"{value:.2f}x" + f" ({', '.join(told)})" * bool(told)


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(cells) + " |" for cells in rows)]


def not_measured(report):
    lines = [f"- {what}" for what in report["lacks"]]
    lines += [f"- {TITLES[name]}: left out by --peers" for name in PEERS if name not in report["peers"]]
    lines += [f"- peers in {precision}: left out by --peer-precisions" for precision in PRECISIONS
              if precision not in report["peer_precisions"]]
    models = {}  # for each absent contestant: the first reason, and the models
    for row in report["rows"]:
        for name, why in row["absent"].items():
            models.setdefault(name, (why, []))[1].append(row["model"])
    return lines + [f"- {name} of {', '.join(of)}: {why}" for name, (why, of) in models.items()]


def tried_again(report):
    """Lines for contestants that failed and were tried again, with the number of rounds in which that happened."""
    lines = []
    for row in report["rows"]:
        failures = {}
        for measured in row["rounds"]:
            for name, one in measured.items():
                if "tried_again" in one:
                    failures.setdefault(name, []).append(one["tried_again"])
        lines += [f"- {name} of {row['model']}: tried again in {len(whys)} of {len(row['rounds'])} rounds: {whys[0]}"
                  for name, whys in failures.items()]
    return lines


def document(report):
    names = [name for name in (*OURS, *PEERS) if name in OURS or name in report["peers"]]
    titles = [TITLES[name] for name in names]
    machine, rows = report["machine"], report["rows"]
    speed, devices, memory = [], [], []
    for row in rows:
        model, case, bars = f"{row['model']}, batch {row['batch']}", CASES[row["model"]], SPEED_BARS[row["model"]]
        for precision in PRECISIONS:
            speed.append([model, precision, *(figure(row, precision, name, "samples_per_s") for name in names),
                          *(ratio(row["speed_ratio"][precision][name], [bars.fp32, bars.stretch] if precision == "fp32" else [])
                            for name in OURS)])
        speed.append([model, "best of each", *[""] * len(names),
                      *(ratio(row["speed_ratio"]["best"][name], [bars.best]) for name in OURS)])
        for label, value in row["ddp_to_single"].items():
            key = "fp32" if label == "alone" else label
            devices.append([model, label, figure(row, key, "single", "samples_per_s"), figure(row, key, "ddp", "samples_per_s"),
                            ratio(value, [case.ddp_bar] if case.ddp_bar else [])])
        memory.append([model, *(figure(row, "fp32", name, "memory_mb") for name in names),
                       ratio(row["memory_ratio"]["single"]["eager"]),
                       ratio(row["memory_ratio"]["single"]["smallest"], [MEMORY_BAR], least=False),
                       ratio(of_two_devices(row["figures"].get("fp32", {})), [MEMORY_BAR], least=False)])
    told = sorted({f"{key}={value}" for row in rows for measured in row["rounds"] for one in measured.values()
                   for key, value in one.get("environment", {}).items()})
    again, absent = tried_again(report), not_measured(report)
    return "\n".join([
        "# Training speed and memory on a CPU", "",
        f"Whole training steps on {machine['cpu']} with {machine['cores']} cores ({', '.join(machine['instruction_sets'])}), "
        f"{report['date']}: {report['dptrain']} against {'; '.join(report['versions'])}. Medians of {report['rounds']} rounds in "
        f"which all ran in turns; a ratio is the median over the rounds. Made by `{report['command']}`, with the peers that "
        "`scripts/setup_peers.sh` installs. [What limits it](cpu-limits.md) says what profiles show where a bar isn't reached.", "",
        "## Samples/s", "",
        *table(["model", "precision", *titles, "single to the best peer", "ddp to the best peer"], speed), "",
        "dptrain's `single` and every peer in one process have all cores as threads, two devices and two processes half of them "
        "each. PyTorch's bf16 is autocast's."
        + f" It ran with {', '.join(told)}: without that it ends with an illegal instruction here." * bool(told)
        + " The brackets show the bar that a ratio must reach, and for fp32 also a stricter bar; `not` marks a bar that is missed.", "",
        "## Two devices against one, fp32", "",
        *table(["model", "", "single", "ddp", "ddp to single"], devices), "",
        "## Memory, fp32, MB", "",
        *table(["model", *titles, "single to eager", "single to the smallest of PyTorch's", "ddp to PyTorch DDP"], memory), "",
        "The process's peak over what it had before it made the model: dptrain's when it had read its configuration, a peer's "
        "when it had imported its libraries; of two processes the sum.",
        *(["", "## Tried again", "", *again] if again else []),
        *(["", "## Not measured", "", *absent] if absent else []), ""])
