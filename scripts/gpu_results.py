#!/usr/bin/env python3
# Usage: scripts/gpu_results.py --out DIR --name NAME --version TEXT [--driver V] [--cudnn FILE] RESULT...
"""Merges the results of the stages of scripts/gpu_check.sh into DIR/gpu-<name>.json, and writes DIR/gpu-<name>.md from it.

A row of a stage replaces the row of the same name; each row has the date and dptrain's commit. Prints the names of both files.
"""
import argparse
import ctypes
import datetime
import json
import os
import pathlib
import platform
import re

from bench_gpu import CASES

# The bars of each row: the most seconds of an epoch and from the start to the first step, the least speed and the most memory as
# multiples of PyTorch's.
MEMORY_AND_START = dict(memory=0.8, start=3)
BARS = {"resnet18 fp32": dict(MEMORY_AND_START, speed=1.2), "resnet18 tf32": dict(MEMORY_AND_START, speed=1.2),
        "resnet18 bf16": dict(MEMORY_AND_START, epoch=1.0, speed=1.3), "lenet fp32": dict(MEMORY_AND_START, epoch=0.15),
        "pyramidnet-240 bf16": dict(speed=1.3), "pyramidnet-768 bf16": dict(speed=1.3), "bert bf16": dict(speed=1.2)}


def bars_of(gpu, name):
    """The bars of a row; seconds of an epoch are required only of an H200."""
    return {key: bar for key, bar in BARS[name].items() if key != "epoch" or "H200" in gpu}


def cudnn_version(path):
    if not path:
        return None
    try:
        version = ctypes.CDLL(path).cudnnGetVersion()
    except (OSError, AttributeError):
        return None
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def machine_of(arguments):
    names = [line.split(": ", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    toolkit = re.search(r"CUDA ([0-9.]+)", arguments.version)
    libraries = re.search(r"^with: (.*)", arguments.version, re.M)
    return dict(gpu=arguments.name, libraries=libraries[1] if libraries else None, driver=arguments.driver, cuda=toolkit[1] if toolkit else None,
                cudnn=cudnn_version(arguments.cudnn), cpu=names[0] if names else platform.machine(),
                cores=len(os.sched_getaffinity(0)))


def with_bar(value, text, bar, bar_text, at_least):
    if value is None:
        return "not measured yet"
    if bar is None:
        return text
    met = value >= bar if at_least else value <= bar
    return f"{text} ({'meets' if met else 'misses'} {bar_text})"


def figure(row, who, key, scale=1, form=",.0f"):
    part = row.get(who) or {}
    if "failed" in part:
        return "failed"
    return format(part[key] * scale, form) if part.get(key) is not None else "not measured yet"


def bench_table(rows, gpu):
    lines = ["| model | batch | precision | dptrain, s an epoch | dptrain, samples/s | PyTorch eager | PyTorch fast | speed | memory "
             "of dptrain, eager, fast, MB | memory | start of dptrain, eager, fast, s |", "|" + "---|" * 11]
    for name, case, precision in ((f"{name} {p}", case, p) for name, case in CASES.items() for p in case["precisions"]):
        row = rows.get(name)
        if row is None:
            lines.append(f"| {case['model']} | {case['batch']} | {precision} |" + " not measured yet |" * 8)
            continue
        ours, bars = row["dptrain"], bars_of(gpu, name) if row["samples"] == case["samples"] else {}
        epoch = None if "failed" in ours else ours["epoch_s"]
        memory = ", ".join(figure(row, who, "peak_bytes", 1e-6) for who in ("dptrain", "pytorch", "pytorch_fast"))
        starts = ", ".join(figure(row, who, "start_s", 1, ".2f") for who in ("dptrain", "pytorch", "pytorch_fast"))
        cells = [row["model"], str(row["batch"]), precision,
                 "failed" if epoch is None else
                 with_bar(epoch, f"{epoch:.3f}", bars.get("epoch"), f"<= {bars.get('epoch')} s", False),
                 figure(row, "dptrain", "samples_per_s"), figure(row, "pytorch", "samples_per_s"),
                 figure(row, "pytorch_fast", "samples_per_s"),
                 with_bar(row["speed_ratio"], f"{row['speed_ratio']}x", bars.get("speed"), f">= {bars.get('speed')}x", True),
                 memory, with_bar(row["memory_ratio"], f"{row['memory_ratio']}x", bars.get("memory"), f"<= {bars.get('memory')}x", False),
                 starts if epoch is None else with_bar(ours["start_s"], starts, bars.get("start"), f"<= {bars.get('start')} s", False)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def test_table(rows, errors):
    head = "| program | passed | on a GPU | failed | skipped | not run |" + (" errors |" if errors else "") + " s | dptrain | date |"
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    for name, row in rows.items():
        cells = [name, row["passed"], row["cuda_passed"], len(row["failures"]), len(row["skips"]), row["not_run"]]
        cells += [row["errors"] if "errors" in row else "not known"] * errors + [row["seconds"], row["commit"], row["date"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    # A line of a failure may hold any text; backquotes keep it plain.
    for name, row in rows.items():
        for failure in row["failures"]:
            lines += ["", f"{name}: `{failure['test']}` failed: `{' / '.join(failure['lines']).replace('`', chr(39))}`"]
        lines += [line for report in row.get("reports", []) for line in ("", f"{name}: `{report.replace('`', chr(39))}`")]
        lines += [line for skip in row["skips"] for line in ("", f"{name}: `{skip['test']}` skipped: {skip['reason']}")]
    return lines


def document(report):
    m, stages = report["machine"], report["stages"]
    said = lambda value: value or "unknown"  # noqa: E731
    lines = [f"# On {m['gpu']}", "",
             f"Driver {said(m['driver'])}, CUDA {said(m['cuda'])}, cuDNN {said(m['cudnn'])}, {m['cores']} cores of {m['cpu']}. "
             f"dptrain is built with {said(m['libraries'])}. Made by `scripts/gpu_check.sh`; what each stage does is in [gpu.md](../gpu.md).", "", "## Against PyTorch", ""]
    rows = stages.get("bench", {})
    lines += bench_table(rows, m["gpu"])
    lines += ["", "Medians of rounds in which all three ran in turns. An epoch is 60,000 images of 1x28x28, of PyramidNet 23,040 "
              "of 3x32x32, of BERT 20,000 texts of 163 tokens. PyTorch fast is channels-last and torch.compile. Speed is dptrain's "
              "over the faster of PyTorch's two, memory dptrain's peak over the "
              "smaller of theirs (torch.cuda.max_memory_allocated), of steps after those in which algorithms are chosen, start the "
              "time from the process's start to the end of its first step."]
    for name, row in rows.items():
        note = "".join(f"; {row[key]}" for key in ("peer", "note") if row.get(key))
        small = f", epochs of {row['samples']:,}" if row["samples"] != CASES[name.split()[0]]["samples"] else ""
        cpu = (row["dptrain"] or {}).get("cpu_us_per_step")
        cpu = f"; dptrain's threads took {cpu:.0f} µs of CPU time a step, all together" if cpu is not None else ""
        firsts = ", ".join(figure(row, who, "first_peak_bytes", 1e-6) for who in ("dptrain", "pytorch", "pytorch_fast"))
        note = f"; peaks with the choice of algorithms {firsts} MB{note}"
        lines += ["", f"{name}: dptrain {row['commit']}, {row['date']}, rounds: {row['rounds']}{small}{cpu}{note}."]
        for who in ("dptrain", "pytorch", "pytorch_fast"):
            if row.get(who) and "failed" in row[who]:
                lines += ["", f"{name}: {who} failed: `{row[who]['failed']}`"]
    for stage, title in (("test", "## Tests"), ("sanitize", "## compute-sanitizer")):
        lines += ["", title, ""]
        lines += test_table(stages[stage], stage == "sanitize") if stages.get(stage) else ["Not measured yet."]
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, type=pathlib.Path)
    p.add_argument("--name", required=True, help="the GPU's")
    p.add_argument("--version", required=True, help="what dptrain --version prints")
    p.add_argument("--driver")
    p.add_argument("--cudnn", help="the library that dptrain loads")
    p.add_argument("results", nargs="+", type=pathlib.Path)
    a = p.parse_args()
    slug = "gpu-" + re.sub(r"[^a-z0-9]+", "-", a.name.lower()).strip("-")
    path = a.out / (slug + ".json")
    report = json.loads(path.read_text()) if path.exists() else dict(stages={})
    report["machine"] = machine_of(a)
    commit = re.search(r"\(([^)]*)\)", a.version)
    for result in (json.loads(file.read_text()) for file in a.results if file.exists()):
        rows = report["stages"].setdefault(result["stage"], {})
        for name, row in result["rows"].items():
            rows[name] = dict(row, date=datetime.date.today().isoformat(), commit=commit[1] if commit else "unknown")
    a.out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    path.with_suffix(".md").write_text(document(report))
    print(f"{path}, {path.with_suffix('.md')}")


if __name__ == "__main__":
    main()
