#!/usr/bin/env python3
# Usage: scripts/bench_speed.py --environments FOLDER [--only lenet,resnet18] [--peers pytorch,...] [-o docs/results/cpu-speed]
"""Compares speed and memory of dptrain with PyTorch and MXNet on this machine's CPU: whole training steps, in turns in one run.

    scripts/setup_peers.sh FOLDER
    scripts/bench_speed.py --environments FOLDER -o docs/results/cpu-speed

Every round runs all contestants one after the other. A measurement during which other processes used more than --disturbed of the
machine is repeated; a round that still has one is discarded and run again. If three times the rounds are not enough, the model keeps
the undisturbed rounds that it has, and the exit code is 1. A peer that fails is tried again; a peer that fails twice in a row, isn't
offered or isn't installed is left out, and the report says so. Prints JSON; with -o also writes OUT.json and OUT.md, after each model.
Needs only Python's standard library.
"""
import argparse
import json
import sys

from bench.arguments import add_arguments, parsed, write
from bench.cases import CASES, PEERS, PRECISIONS
from bench.contestants import Absent, Failed, contestants
from bench.machine import undisturbed
from bench.origin import origin
from bench.report import document, summarize


def text_of(key):
    name, precision, beside = key
    return f"{name} {precision}" + " beside a busy core" * beside


def measurement(call, limit):
    """The measurement of `call`. If it fails, the measurement of a second try, with the reason for it."""
    try:
        return undisturbed(call, limit)
    except Failed as why:
        print(json.dumps({"tried again": str(why)}), file=sys.stderr, flush=True)
        first = str(why)
    try:
        return dict(undisturbed(call, limit), tried_again=first)
    except Failed as why:
        raise Absent(f"{why}; tried again") from why


def measure_round(calls, absent, limit):
    """One measurement of each call. Contestants that take no part move from `calls` to `absent`, for good."""
    measured = {}
    for key, call in list(calls.items()):
        try:
            measured[key] = measurement(call, limit)
        except Absent as why:
            del calls[key]
            absent[text_of(key)] = str(why)
        said = measured.get(key) or absent[text_of(key)]
        print(json.dumps({text_of(key): said}), file=sys.stderr, flush=True)
    return measured


def measure(model, a):
    """The model's row of the report, and what it lacks: there may be too few undisturbed rounds, or none."""
    calls, absent, quiet, all_rounds = contestants(model, CASES[model], a), {}, [], []
    while len(quiet) < a.rounds and len(all_rounds) < 3 * a.rounds:
        print(f"{model}, round {len(all_rounds) + 1}", file=sys.stderr, flush=True)
        measured = measure_round(calls, absent, a.disturbed)
        all_rounds.append(measured)
        if all(one["others"] <= a.disturbed for one in measured.values()):
            quiet.append(measured)
    lacks = []
    if len(quiet) < a.rounds:
        lacks = [f"{model}: other processes disturbed {len(all_rounds) - len(quiet)} of {len(all_rounds)} rounds"]
        print(f"bench_speed: {lacks[0]}; run it on a quiet machine, or allow more with --disturbed", file=sys.stderr)
    if not quiet:
        return [], lacks
    # A contestant that dropped out in a later round has no figures of the earlier rounds either.
    quiet = [{key: one for key, one in measured.items() if key in calls} for measured in quiet]
    return [dict(summarize(model, quiet, absent), discarded_rounds=len(all_rounds) - len(quiet),
                 rounds=[{text_of(key): one for key, one in measured.items()} for measured in quiet])], lacks


def listed(known):
    """A type for argparse: names separated by commas, all of them in `known`."""
    def names(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}': expected one of {', '.join(known)}")
        return text.split(",")
    return names


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p, rounds=5)
    p.add_argument("--only", type=listed(CASES), default=list(CASES), help="models, of " + ", ".join(CASES))
    p.add_argument("--peers", type=listed(PEERS), default=list(PEERS), help="of " + ", ".join(PEERS))
    p.add_argument("--peer-precisions", type=listed(PRECISIONS), default=list(PRECISIONS),
                   help="of fp32, bf16: without AVX-512 the bf16 of PyTorch takes six times as long as its fp32, or longer")
    a = parsed(p)
    report = dict(origin(a.binary), versions=[], peers=a.peers, peer_precisions=a.peer_precisions, rounds=a.rounds,
                  disturbed=a.disturbed, lacks=[], rows=[])
    for model in a.only:
        rows, lacks = measure(model, a)
        report["rows"] += rows
        report["lacks"] += lacks
        report["versions"] = sorted({one["peer"] for row in report["rows"] for measured in row["rounds"]
                                     for one in measured.values() if "peer" in one})
        if a.out:
            write(report, document(report), a.out)
    print(json.dumps(report, indent=1))
    sys.exit(bool(report["lacks"]))


if __name__ == "__main__":
    main()
