#!/usr/bin/env python3
"""Writes pytorch_schedules.json: the learning rates of torch.optim.lr_scheduler for the schedules that tests/optim goes
through, at a base rate of 0.4 over 6 epochs of 7 steps.

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


def by_epoch():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], BASE)
    schedule = lr.StepLR(optimizer, 2, 0.5)
    found = []
    for _ in range(EPOCHS):
        found += [optimizer.param_groups[0]["lr"]] * STEPS
        optimizer.step()
        schedule.step()
    return found


def main():
    cases = {
        "constant": rates(constant),
        "{name: constant, warmup_steps: 5}": rates(constant, 5),
        "{name: step, every_epochs: 2, gamma: 0.5}": by_epoch(),
        "{name: cosine, min: 0.04}": rates(cosine),
        "{name: cosine, min: 0.04, warmup_epochs: 1}": rates(cosine, 7),
        "{name: linear, min: 0.04}": rates(linear),
        "{name: linear, min: 0.04, warmup_steps: 10}": rates(linear, 10),
        "one_cycle": rates(lambda o, steps: lr.OneCycleLR(o, BASE, steps)),
        "{name: one_cycle, peak_at: 0.5}": rates(lambda o, steps: lr.OneCycleLR(o, BASE, steps, pct_start=0.5)),
    }
    lines = ",\n".join(f" {json.dumps(name)}: {[float(f'{r:.10g}') for r in found]}" for name, found in cases.items())
    (Path(__file__).resolve().parent / "pytorch_schedules.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
