#!/usr/bin/env python3
"""Writes pytorch/small_net.safetensors, the state of a small net as PyTorch saves it, and pytorch/small_net.json, what PyTorch made
of it: loss and accuracy on the first 200 test digits of datasets/mnist-10k, before and after five steps of SGD on the first 320
training digits in their order.

    tests/golden/pytorch_files.py

Needs torch and safetensors. tests/train/pytorch_files_test.cc does the same with dptrain. pytorch/lenet.json is what
scripts/convert_pytorch.py to-pytorch --model lenet prints of the checkpoint that the test writes.
"""
import gzip
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent.parent / "datasets" / "mnist-10k"


class SmallNet(nn.Module):
    """The names are those of dptrain's layers."""
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 6, 5, stride=2), nn.BatchNorm2d(6)
        self.fc1 = nn.Linear(6, 10)

    def forward(self, x):
        return self.fc1(F.relu(self.bn1(self.conv1(x))).mean((2, 3)))


def digits(part, count):
    def read(name, head):
        return np.frombuffer(gzip.open(DIGITS / f"{part}-{name}-ubyte.gz").read(), np.uint8)[head:]
    images = read("images-idx3", 16).reshape(-1, 1, 28, 28)[:count]
    return torch.tensor(images).double() / 255, torch.tensor(read("labels-idx1", 8)[:count]).long()


def evaluate(net):
    net.eval()
    images, labels = digits("t10k", 200)
    with torch.no_grad():
        logits = net(images)
    return dict(loss=float(F.cross_entropy(logits, labels)), accuracy=float((logits.argmax(1) == labels).double().mean()))


def main():
    torch.manual_seed(5)
    net = SmallNet()
    # Statistics and counts that are not those of a beginning.
    net.train()
    net(digits("train", 64)[0].float())
    save_file(net.state_dict(), HERE / "pytorch" / "small_net.safetensors")
    net.double()
    report = dict(before=evaluate(net))
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), 0.5, momentum=0.9)
    images, labels = digits("train", 320)
    for x, y in zip(images.split(64), labels.split(64)):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    report["after"] = evaluate(net)
    (HERE / "pytorch" / "small_net.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
