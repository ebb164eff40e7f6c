#!/usr/bin/env python3
"""Writes pytorch_values.json: what PyTorch computes, in float64, for the cases that the tests of lib/ops go through.

    tests/ops/pytorch_values.py

Needs torch and numpy; the tests themselves read only the JSON. Inputs are not stored: element i of tensor number t of a
case is centre + u(seed, t, i), rounded to float32, with u of tests/golden/golden.py. The numbers of the tensors are
X, WEIGHT, ... below, the centre is 0 but where a case says otherwise. A result of at most 40 elements is stored whole, a
larger one as its norm, its first four elements and its products with u(9, k, i), k = 0..3.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden"))
from golden import uniform, words

X, WEIGHT, BIAS, OUTPUT_GRADIENT, RESIDUAL, RUNNING_MEAN, RUNNING_VARIANCE, LABELS = range(8)
SEED = 11


def values(tensor, *shape, centre=0.0, scale=1.0):
    exact = centre + scale * uniform(SEED, tensor, shape)
    return exact.to(torch.float32).to(torch.float64).requires_grad_()


def rounded(t):
    return [float(f"{v:.8g}") for v in t.tolist()]


def stored(t):
    flat = t.detach().flatten()
    if flat.numel() <= 40:
        return dict(values=rounded(flat))
    dots = torch.stack([flat @ uniform(9, k, (flat.numel(),)) for k in range(4)])
    return dict(norm=rounded(flat.norm()[None])[0], first=rounded(flat[:4]), dots=rounded(dots))


def backward(y):
    y.backward(values(OUTPUT_GRADIENT, *y.shape).detach())


def conv2d():
    # name, x [N, C, H, W], output channels, kernel, stride, padding, bias
    for name, x, out, kernel, stride, padding, with_bias in [
        ("grey_5x5", (2, 1, 12, 10), 20, 5, 1, 0, True),
        ("colour_3x3", (2, 3, 8, 9), 16, 3, 1, 1, True),
        ("colour_5x5_stride2", (2, 3, 11, 9), 64, 5, 2, 2, False),
        ("few_to_few_3x3", (3, 5, 6, 5), 7, 3, 1, 1, True),
        ("16_to_16_3x3", (2, 16, 7, 9), 16, 3, 1, 1, True),
        ("16_to_16_3x3_unpadded", (1, 16, 8, 5), 16, 3, 1, 0, False),
        ("16_to_16_3x3_wide", (1, 16, 3, 14), 16, 3, 1, 2, True),
        ("24_to_50_3x3", (2, 24, 5, 7), 50, 3, 1, 1, True),
        ("64_to_64_3x3", (2, 64, 7, 7), 64, 3, 1, 1, True),
        ("16_to_64_3x3_stride2", (2, 16, 8, 7), 64, 3, 2, 1, True),
        ("16_to_64_1x1", (2, 16, 5, 6), 64, 1, 1, 0, True),
        ("64_to_16_1x1_stride2", (2, 64, 6, 7), 16, 1, 2, 0, True),
        ("20_to_20_3x3", (2, 20, 6, 6), 20, 3, 1, 1, True),
        ("20_to_64_5x5", (2, 20, 7, 6), 64, 5, 1, 0, False),
        ("64_to_20_3x3_stride2", (1, 64, 6, 6), 20, 3, 2, 1, True),
        ("16_to_50_5x5", (2, 16, 6, 6), 50, 5, 1, 2, True),
        ("one_position", (3, 16, 3, 3), 16, 3, 1, 0, True),
    ]:
        inputs = values(X, *x)
        weight = values(WEIGHT, out, x[1], kernel, kernel)
        bias = values(BIAS, out) if with_bias else None
        y = F.conv2d(inputs, weight, bias, stride, padding)
        backward(y)
        yield dict(name=name, x=x, weight=list(weight.shape), stride=stride, padding=padding, bias=with_bias,
                   y=stored(y), y_relu=stored(F.relu(y)), dx=stored(inputs.grad), dweight=stored(weight.grad),
                   **({"dbias": stored(bias.grad)} if with_bias else {}))


def linear():
    for name, n, i, o, with_bias in [
        ("one", 1, 1, 1, True),
        ("small", 3, 7, 5, True),
        ("no_bias", 3, 7, 5, False),
        ("hidden", 6, 800, 128, True),
        ("logits", 6, 128, 10, True),
    ]:
        x, weight, bias = values(X, n, i), values(WEIGHT, o, i), values(BIAS, o) if with_bias else None
        y = F.linear(x, weight, bias)
        backward(y)
        yield dict(name=name, x=(n, i), weight=(o, i), bias=with_bias, y=stored(y), y_relu=stored(F.relu(y)),
                   dx=stored(x.grad), dweight=stored(weight.grad), **({"dbias": stored(bias.grad)} if with_bias else {}))


def pool2d():
    # name, x, kernel, stride, padding, ceil; an average with padding and a ceiling isn't computed.
    for name, shape, kernel, stride, padding, ceil in [
        ("2x2", (2, 20, 8, 6), 2, 2, 0, False),
        ("2x2_rest", (2, 16, 7, 8), 2, 2, 0, False),
        ("2x2_ceil", (2, 3, 7, 8), 2, 2, 0, True),
        ("2x2_ceil_other_side", (1, 20, 6, 5), 2, 2, 0, True),
        ("3x3_stride2", (2, 16, 8, 7), 3, 2, 1, False),
        ("3x3_stride2_ceil", (2, 20, 8, 7), 3, 2, 1, True),
        ("3x3_stride1", (1, 5, 5, 6), 3, 1, 1, False),
        ("2x2_stride3_ceil", (1, 8, 7, 6), 2, 3, 1, True),
        ("2x2_stride3_ceil_edge", (1, 8, 5, 8), 2, 3, 1, True),
        ("2x2_stride3", (1, 16, 7, 9), 2, 3, 0, False),
        ("whole", (2, 16, 4, 4), 4, 4, 0, False),
    ]:
        for kind in ("max", "average"):
            if kind == "average" and padding and ceil:
                continue
            x = values(X, *shape)
            y = (F.max_pool2d if kind == "max" else F.avg_pool2d)(x, kernel, stride, padding, ceil_mode=ceil)
            backward(y)
            yield dict(name=f"{kind}_{name}", x=shape, kind=kind, kernel=kernel, stride=stride, padding=padding,
                       ceil=ceil, output=list(y.shape), y=stored(y), dx=stored(x.grad))


def global_average_pool():
    for name, shape in [("square", (2, 20, 4, 4)), ("oblong", (3, 5, 3, 5)), ("one_position", (2, 16, 1, 1))]:
        x = values(X, *shape)
        y = x.mean((2, 3))
        backward(y)
        yield dict(name=name, x=shape, y=stored(y), dx=stored(x.grad))


def batch_norm():
    usual = dict(eps=1e-5, momentum=0.1)
    # name, x, centre of x, relu, residual
    for name, shape, centre, relu, residual, options in [
        ("bare", (3, 16, 5, 4), 0, False, False, usual),
        ("relu", (3, 16, 5, 5), 0, True, False, usual),
        ("residual", (2, 20, 3, 4), 0, False, True, usual),
        ("relu_residual", (2, 20, 3, 3), 0, True, True, usual),
        ("one_sample", (1, 5, 3, 3), 0, True, False, usual),
        ("one_position", (4, 20, 1, 1), 0, True, True, usual),
        ("far_from_zero", (3, 20, 4, 4), 30, True, False, usual),
        ("eps_and_momentum", (3, 20, 4, 4), 0, True, True, dict(eps=0.25, momentum=0.75)),
    ]:
        channels = shape[1]
        x, gamma, beta = values(X, *shape, centre=centre), values(WEIGHT, channels, centre=1), values(BIAS, channels)
        mean = values(RUNNING_MEAN, channels).detach()
        variance = values(RUNNING_VARIANCE, channels, centre=2).detach()
        added = values(RESIDUAL, *shape) if residual else None
        finish = lambda y: (F.relu if relu else lambda v: v)(y + added if residual else y)
        evaluated = finish(F.batch_norm(x, mean, variance, gamma, beta, **options))
        y = finish(F.batch_norm(x, mean, variance, gamma, beta, training=True, **options))
        backward(y)
        yield dict(name=name, x=shape, centre=centre, relu=relu, residual=residual, **options, y=stored(y),
                   evaluated=stored(evaluated), running_mean=stored(mean), running_variance=stored(variance),
                   dx=stored(x.grad), dgamma=stored(gamma.grad), dbeta=stored(beta.grad),
                   **({"dresidual": stored(added.grad)} if residual else {}))


def cross_entropy():
    # The scale multiplies the logits.
    for name, n, classes, scale in [("digits", 6, 10, 1), ("two_classes", 5, 2, 3), ("confident", 6, 10, 100),
                                    ("extreme", 6, 10, 30000), ("many_classes", 3, 1000, 4)]:
        logits = values(X, n, classes, scale=scale)
        labels = torch.from_numpy((words(SEED, LABELS, n) % np.uint64(classes)).astype(np.int64))
        losses = F.cross_entropy(logits, labels, reduction="none")
        (losses.sum() / 7).backward()
        yield dict(name=name, logits=(n, classes), scale=scale, losses=stored(losses), correct=int((logits.argmax(1) == labels).sum()),
                   dlogits=stored(logits.grad))


def sgd():
    for name, momentum, decay, nesterov in [("plain", 0, 0, False), ("decay", 0, 0.1, False), ("momentum", 0.9, 0, False),
                                            ("momentum_decay", 0.9, 0.1, False), ("nesterov", 0.5, 0.1, True)]:
        weights = values(WEIGHT, 37)
        optimizer = torch.optim.SGD([weights], 0.25, momentum, weight_decay=decay, nesterov=nesterov)
        for step in range(3):
            weights.grad = values(OUTPUT_GRADIENT + 10 * step, 37).detach()
            optimizer.step()
        yield dict(name=name, momentum=momentum, weight_decay=decay, nesterov=nesterov, weights=stored(weights))


def adam():
    for name, kind, options in [("plain", "Adam", {}), ("decay", "Adam", dict(weight_decay=0.1)),
                                ("betas", "Adam", dict(betas=(0.5, 0.75), eps=1e-3)),
                                ("decoupled", "AdamW", dict(weight_decay=0.1))]:
        weights = values(WEIGHT, 37)
        optimizer = getattr(torch.optim, kind)([weights], 0.25, **{"weight_decay": 0, **options})
        for step in range(3):
            weights.grad = values(OUTPUT_GRADIENT + 10 * step, 37).detach()
            optimizer.step()
        group = optimizer.param_groups[0]
        yield dict(name=name, decoupled=kind == "AdamW", beta1=group["betas"][0], beta2=group["betas"][1],
                   epsilon=group["eps"], weight_decay=group["weight_decay"], weights=stored(weights))


def clip():
    # 40,000 elements are several runs of the sum.
    for name, elements, most in [("clipped", 40000, 2.0), ("short", 37, 0.5), ("left_alone", 37, 100.0)]:
        weights = values(WEIGHT, elements)
        weights.grad = values(OUTPUT_GRADIENT, elements).detach()
        torch.nn.utils.clip_grad_norm_([weights], most)
        yield dict(name=name, elements=elements, most=most, gradients=stored(weights.grad))


def main():
    torch.set_default_dtype(torch.float64)
    operators = [conv2d, linear, pool2d, global_average_pool, batch_norm, cross_entropy, sgd, adam, clip]
    lines = [f' "{op.__name__}": [\n' + ",\n".join("  " + json.dumps(case) for case in op()) + "\n ]" for op in operators]
    (HERE / "pytorch_values.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
