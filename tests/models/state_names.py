#!/usr/bin/env python3
"""Writes state_names.json: names and shapes of every tensor in the state of the models of scripts/pytorch_models.py.

    tests/models/state_names.py

Parameters first, then running statistics, each in PyTorch's order of registration, then the further names of tied
parameters. Needs torch and transformers; the tests read only the JSON.
"""
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
from pytorch_models import MODELS  # noqa: E402


def tensors(model):
    named = list(model.named_parameters()) + [(n, b) for n, b in model.named_buffers() if b.is_floating_point()]
    known = {name for name, _ in named}
    named += [(n, t) for n, t in model.state_dict().items() if n not in known and t.is_floating_point()]  # tied
    return {name: list(tensor.shape) for name, tensor in named}


def main():
    models = {name: MODELS[name]() for name in ("lenet", "resnet18", "pyramidnet", "bert")}
    lines = []
    for name, model in models.items():
        entries = ",\n".join(f'   "{key}": {json.dumps(shape)}' for key, shape in tensors(model).items())
        lines.append(f' "{name}": {{\n  "parameters": {sum(p.numel() for p in model.parameters())},\n'
                     f'  "tensors": {{\n{entries}\n  }}\n }}')
    (HERE / "state_names.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
