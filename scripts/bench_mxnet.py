#!/usr/bin/env python3
# Usage: scripts/bench_mxnet.py --model lenet|resnet18 [--batch N] [--contexts N]
"""The MXNet peer of dptrain: Gluon's split_and_load and Trainer on one or several CPU contexts, hybridized.

Prints one JSON line: samples/s on data already in memory, after warm-up, and the process's peak memory over that after the imports.
Needs mxnet 1.9.1, which runs on Python 3.8 with numpy before 1.24.
"""
import argparse
import json
import resource
import sys
import time

from bench.packages import end_without

try:
    import mxnet as mx
    from mxnet import autograd, gluon, init
    from mxnet.gluon import nn
except ImportError as missing:
    end_without(missing, __doc__)


def peak_rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Residual(nn.HybridBlock):
    """The residual block of Dive into Deep Learning."""
    def __init__(self, channels, project=False, strides=1, **others):
        super().__init__(**others)
        self.conv1 = nn.Conv2D(channels, 3, padding=1, strides=strides)
        self.conv2 = nn.Conv2D(channels, 3, padding=1)
        self.conv3 = nn.Conv2D(channels, 1, strides=strides) if project else None
        self.bn1, self.bn2 = nn.BatchNorm(), nn.BatchNorm()

    def hybrid_forward(self, F, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (self.conv3(x) if self.conv3 else x))


def lenet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="relu"), nn.MaxPool2D(2, 2),
            nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dense(10))
    return net


def resnet18():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 3, 1, 1), nn.BatchNorm(), nn.Activation("relu"))
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            smaller = stage > 0 and block == 0
            net.add(Residual(channels, project=smaller, strides=2 if smaller else 1))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


MODELS = {"lenet": lenet, "resnet18": resnet18}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=MODELS, default="resnet18")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--contexts", type=int, default=1, help="CPU contexts that the batch is split over")
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--min-steps", type=int, default=5)
    p.add_argument("--seconds", type=float, default=5)
    a = p.parse_args()
    start_mb = peak_rss_mb()
    contexts = [mx.cpu(i) for i in range(a.contexts)]
    net = MODELS[a.model]()
    net.initialize(init.Normal(sigma=0.01), ctx=contexts)
    net.hybridize(static_alloc=True, static_shape=True)
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore="device")
    x = mx.nd.random.uniform(shape=(a.batch, 1, 28, 28))
    y = mx.nd.random.randint(0, 10, shape=(a.batch,)).astype("float32")

    def steps(count):
        """Seconds for so many steps, including the wait for their end."""
        start = time.perf_counter()
        for _ in range(count):
            xs, ys = gluon.utils.split_and_load(x, contexts), gluon.utils.split_and_load(y, contexts)
            with autograd.record():
                losses = [criterion(net(part), labels) for part, labels in zip(xs, ys)]
            for loss in losses:
                loss.backward()
            trainer.step(a.batch)
        mx.nd.waitall()
        return time.perf_counter() - start

    steps(max(a.warmup - 1, 1))
    count = max(a.min_steps, round(a.seconds / steps(1)))
    seconds = steps(count)
    print(json.dumps(dict(peer="mxnet " + mx.__version__, model=a.model, batch=a.batch, contexts=a.contexts,
                          samples_per_s=round(a.batch * count / seconds, 1), start_mb=round(start_mb, 1),
                          memory_mb=round(peak_rss_mb() - start_mb, 1))))


if __name__ == "__main__":
    main()
