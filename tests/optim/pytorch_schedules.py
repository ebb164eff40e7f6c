#!/usr/bin/env python3
"""Writes pytorch_schedules.json: the learning rates of torch.optim.lr_scheduler for the schedules that tests/optim goes
through, at a base rate of 0.4 over 6 epochs of 7 steps; and pytorch_plateaus.json: those of ReduceLROnPlateau, from the
same base, before each of 24 evaluations.

    tests/optim/pytorch_schedules.py

Needs torch; the tests read only the JSON. A warm-up of W steps is LinearLR from 1 / W of the rate.
"""
import json
from pathlib import Path

import torch
from torch.optim import lr_scheduler as lr

BASE, EPOCHS, STEPS = 0.4, 6, 7
TOTAL = EPOCHS * STEPS


def constant(o, steps):
    return lr.ConstantLR(o, 1.0, steps)


def cosine(o, steps):
    return lr.CosineAnnealingLR(o, steps, 0.04)


def linear(o, steps):
    return lr.LinearLR(o, 1.0, 0.1, steps)


def rates(make, warmup=0):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], BASE)
    schedule = make(optimizer, TOTAL - warmup)
    if warmup:
        rise = lr.LinearLR(optimizer, 1 / warmup, 1.0, warmup - 1)
        schedule = lr.SequentialLR(optimizer, [rise, schedule], [warmup])
    found = []
    for _ in range(TOTAL):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def by_epoch(make):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], BASE)
    schedule = make(optimizer)
    found = []
    for _ in range(EPOCHS):
        found += [optimizer.param_groups[0]["lr"]] * STEPS
        optimizer.step()
        schedule.step()
    return found


def plateau(mode, values, **options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], BASE)
    schedule = lr.ReduceLROnPlateau(optimizer, mode, **options)
    found = []
    for value in values:
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step(value)
    return found


def plateaus():
    """Losses and accuracies that get better more and more slowly, with a relapse now and then."""
    falling = [round(0.3 + 1 / (1 + i) + (0.2 if i % 5 == 3 else 0), 4) for i in range(24)]
    rising = [round(0.95 - value / 4, 4) for value in falling]
    flat = [round(0.5 - 0.000004 * i, 6) for i in range(24)]
    return {
        "plateau": ("min", flat, {}),
        "{name: plateau, patience: 0}": ("min", falling, {"patience": 0}),
        "{name: plateau, patience: 2, factor: 0.5}": ("min", flat, {"patience": 2, "factor": 0.5}),
        "{name: plateau, patience: 1, threshold: 0.1, min: 0.003}": ("max", rising, {"patience": 1, "threshold": 0.1, "min_lr": 0.003}),
        "{name: plateau, patience: 0, factor: 1.0e-4}": ("max", rising, {"patience": 0, "factor": 1e-4}),
    }


def write(name, lines):
    (Path(__file__).resolve().parent / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    cases = {
        "constant": rates(constant),
        "{name: constant, warmup_steps: 5}": rates(constant, 5),
        "{name: step, every_epochs: 2, gamma: 0.5}": by_epoch(lambda o: lr.StepLR(o, 2, 0.5)),
        "{name: multi_step, milestones: [1, 4], gamma: 0.5}": by_epoch(lambda o: lr.MultiStepLR(o, [1, 4], 0.5)),
        "{name: cosine, min: 0.04}": rates(cosine),
        "{name: cosine, min: 0.04, warmup_epochs: 1}": rates(cosine, 7),
        "{name: linear, min: 0.04}": rates(linear),
        "{name: linear, min: 0.04, warmup_steps: 10}": rates(linear, 10),
        "{name: polynomial, power: 2}": rates(lambda o, steps: lr.PolynomialLR(o, steps, 2)),
        "{name: polynomial, power: 0.5, warmup_steps: 10}": rates(lambda o, steps: lr.PolynomialLR(o, steps, 0.5), 10),
        "one_cycle": rates(lambda o, steps: lr.OneCycleLR(o, BASE, steps)),
        "{name: one_cycle, peak_at: 0.5}": rates(lambda o, steps: lr.OneCycleLR(o, BASE, steps, pct_start=0.5)),
    }
    write("pytorch_schedules.json", [f" {json.dumps(name)}: {[float(f'{r:.10g}') for r in found]}" for name, found in cases.items()])
    write("pytorch_plateaus.json",
          [f" {json.dumps(name)}: {json.dumps({'mode': mode, 'values': values, 'rates': plateau(mode, values, **options)})}"
           for name, (mode, values, options) in plateaus().items()])


if __name__ == "__main__":
    main()
