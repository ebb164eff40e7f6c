"""Compares dptrain's ways to train in parallel with PyTorch's counterparts: measures all in rounds, and summarizes the rounds."""
import json
import statistics
import sys

from bench.arguments import write
from bench.contestants import Absent
from bench.machine import undisturbed
from bench.origin import origin

OURS = "dptrain"
# The arguments of the peers' scripts for each flavor.
FLAVORS = {"eager": [], "compiled": ["--fast"]}
CONTESTANTS = (OURS, *FLAVORS)
COLUMNS = ("dptrain, samples/s", "PyTorch eager", "PyTorch compiled", "to its best of the same", "to its best of all", "dptrain, MB",
           "PyTorch eager", "PyTorch compiled")


def measure(a, calls, said):
    """Rounds of the calls, (way, contestant) -> call, that take part, and why the others don't. `said`: fields of each progress
    line."""
    calls, absent, rounds = dict(calls), {}, []
    for number in range(a.rounds):
        measured = {}
        for key, call in list(calls.items()):
            try:
                measured[key] = undisturbed(call, a.disturbed)
            except Absent as why:
                del calls[key]
                absent[" ".join(key)] = str(why)
            print(json.dumps(dict(said, round=number + 1, of=" ".join(key), **measured.get(key, {}))), file=sys.stderr, flush=True)
        rounds.append(measured)
    # A contestant that dropped out in a later round has no figures of the earlier rounds either.
    return [{key: one for key, one in measured.items() if key in calls} for measured in rounds], absent


def row(rounds, way):
    """Medians of each contestant, and of the ratios to PyTorch's best of the same way and to its best of all ways."""
    speed = {whose: round(statistics.median(one[way, whose]["samples_per_s"] for one in rounds), 1)
             for whose in CONTESTANTS if (way, whose) in rounds[0]}
    memory = {whose: round(statistics.median(one[way, whose]["memory_mb"] for one in rounds)) for whose in speed}

    def ratio(is_peer):
        of_rounds = [one[way, OURS]["samples_per_s"] / max(measured["samples_per_s"] for key, measured in one.items() if is_peer(key))
                     for one in rounds if any(map(is_peer, one))]
        return round(statistics.median(of_rounds), 2) if of_rounds else None

    return dict(way=way, samples_per_s=speed, memory_mb=memory,
                to_same=ratio(lambda key: key[0] == way and key[1] != OURS), to_best=ratio(lambda key: key[1] != OURS))


def versions_of(cases):
    return sorted({one["peer"] for case in cases for of_round in case["rounds"] for one in of_round.values() if "peer" in one})


def run(a, cases, ways, document):
    """Measures all ways of each case, (description, calls), and prints the report. With a.out, also writes the report and its
    document."""
    report = dict(origin(a.binary), schema=1, versions=[], rounds=a.rounds, disturbed=a.disturbed, cases=[])
    for what, calls in cases:
        rounds, absent = measure(a, calls, what)
        report["cases"].append(dict(what, absent=absent, ways=[row(rounds, way) for way in ways],
                                    rounds=[{" ".join(key): one for key, one in measured.items()} for measured in rounds]))
        report["versions"] = versions_of(report["cases"])
        if a.out:
            write(report, document(report), a.out)
    print(json.dumps(report, indent=1))


def introduction(report, what, peers):
    """The first paragraph of a document."""
    machine = report["machine"]
    return (f"{what} on two devices of a thread each, on {machine['cpu']} with {machine['cores']} cores, {report['date']}: {report['dptrain']}, "
            f"{', '.join(report['versions']) or 'PyTorch not installed'}. Medians of {report['rounds']} rounds in which all ran in turns. "
            f"PyTorch's devices are processes over gloo; {peers}. Memory is what the process, or both, took beyond their start. Made by "
            f"`{report['command']}`.")


def table(case, of):
    """The lines of a case's table; `of`: the heading of the column of ways."""
    lines = [f"| {of} | {' | '.join(COLUMNS)} |", "|---" * (1 + len(COLUMNS)) + "|"]
    for way in case["ways"]:
        cells = [f"`{way['way']}`"]
        for values in (way["samples_per_s"], way["memory_mb"]):
            cells += [f"{values[whose]:g}" if whose in values else "-" for whose in CONTESTANTS]
            if values is way["samples_per_s"]:
                cells += ["-" if way[ratio] is None else f"{way[ratio]:.2f}x" for ratio in ("to_same", "to_best")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [f"\nNot measured: {name}: {why}" for name, why in case["absent"].items()]
