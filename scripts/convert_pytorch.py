#!/usr/bin/env python3
# Usage: scripts/convert_pytorch.py to-pytorch|from-pytorch ... --model NAME -o FILE     (--help)
"""Converts weights of dptrain's models to PyTorch and back, with the reference models of scripts/pytorch_models.py.

    convert_pytorch.py to-pytorch runs/lenet_1cpu --model lenet -o lenet.pt
    convert_pytorch.py from-pytorch lenet.pt --model lenet -o lenet.safetensors
    convert_pytorch.py from-pytorch --new --model resnet18 --set channels=3 -o new.safetensors

to-pytorch reads a run, the folder of a checkpoint or a .safetensors file, and loads it with load_state_dict(strict=True). With -o it
writes the state with torch.save. It prints JSON: the weights' hash as `dptrain hash` prints it, and the model's outputs for inputs
from a formula (tests/golden/golden.py). from-pytorch takes a file that torch.save or safetensors wrote, or with --new the model as
PyTorch initializes it, and writes a file that `init: {from: FILE}` reads. Needs torch and safetensors, for bert also transformers:
scripts/setup_peers.sh.
"""
import argparse
import hashlib
import json
import pathlib
import sys

from bench.packages import end_without

try:
    import torch
    from safetensors.torch import load_file, save_file

    from pytorch_models import MODELS
except ImportError as missing:
    end_without(missing, __doc__)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"))
from golden import batch_for, summary  # noqa: E402


def weights_file(path):
    """The model.safetensors of a run's newest checkpoint, that of a checkpoint, or the file itself."""
    if path.is_file():
        return path
    # Checkpoints that a killed run left half-written, or that a resumed run put aside, are called step-000938.tmp-7 and
    # step-000938.aside.
    steps = {int(folder.name[5:]): folder for folder in path.glob("checkpoints/step-*")
             if folder.name[5:].isdecimal() and (folder / "manifest.json").exists()}
    found = (steps[max(steps)] if steps else path) / "model.safetensors"
    if not found.exists():
        sys.exit(f"convert_pytorch: {path}: expected a run, a checkpoint or a .safetensors file, found no weights")
    return found


def state_of(net):
    """The state that dptrain keeps of a model: parameters, tied ones under each of their names, and running statistics."""
    return {name: tensor.clone() for name, tensor in net.state_dict().items() if tensor.is_floating_point()}


def load(net, tensors):
    """Gives the model exactly these tensors. The counters of batch norms, which dptrain doesn't have, stay as they are. For tied
    parameters, which share memory, one name is enough."""
    own, state = net.state_dict(), dict(tensors)
    given = {own[name].data_ptr(): tensor for name, tensor in tensors.items() if name in own}
    for name, tensor in own.items():
        if name.endswith(".num_batches_tracked"):
            state.setdefault(name, tensor)
        elif tensor.data_ptr() in given:
            state.setdefault(name, given[tensor.data_ptr()])
    try:
        net.load_state_dict(state, strict=True)
    except RuntimeError as error:
        sys.exit(f"convert_pytorch: {' '.join(str(error).split())}; check that --model and --set are those of the run that wrote it")


def averaged(net, tensors, path):
    """The tensors with the moving average that a run with ema has kept beside them, under each name of a parameter."""
    if not path.exists():
        sys.exit(f"convert_pytorch: {path}: no such file; only a run with ema has an average")
    own = net.state_dict()
    average = {own[name].data_ptr(): tensor for name, tensor in load_file(path).items() if name in own}
    return {name: average.get(own[name].data_ptr(), tensor) if name in own else tensor for name, tensor in tensors.items()}


def weights_hash(tensors):
    """The hash that lib/train/safetensors.h defines."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}\nF32\n{list(tensors[name].shape)}\n".encode())
        digest.update(tensors[name].numpy().astype("<f4", copy=False).tobytes())
    return digest.hexdigest()


def outputs(model, net):
    """Norm, first values and products with fixed vectors of the logits, in evaluation, for the formula's batch of 4 with seed 1."""
    net.eval()
    with torch.no_grad():
        if model != "bert":
            return dict(logits=summary(net(batch_for(model, 4, 1, 0, 0)[0])))
        result = net(**batch_for(model, 4, 1, net.config.vocab_size, net.config.max_position_embeddings))
        return dict(logits=summary(result.prediction_logits), next_sentence=summary(result.seq_relationship_logits))


def to_pytorch(a, net):
    file = weights_file(a.source)
    tensors = load_file(file)
    load(net, averaged(net, tensors, file.with_name("average.safetensors")) if a.average else tensors)
    if a.out:
        torch.save(net.state_dict(), a.out)
    print(json.dumps(dict(model=a.model, options=dict(a.set), weights_hash=weights_hash(state_of(net)), **outputs(a.model, net)),
                     indent=1))


def from_pytorch(a, net):
    if a.source:
        load(net, load_file(a.source) if a.source.suffix == ".safetensors" else torch.load(a.source, weights_only=True))
    save_file(state_of(net), a.out, metadata=dict(format="pt"))
    print(json.dumps(dict(model=a.model, options=dict(a.set), weights_hash=weights_hash(state_of(net)))))


def option(text):
    """KEY=VALUE of --set, where the value is a number."""
    key, _, value = text.partition("=")
    return key, float(value) if "." in value else int(value)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("direction", choices=("to-pytorch", "from-pytorch"))
    p.add_argument("source", nargs="?", type=pathlib.Path, help="a checkpoint of dptrain, or a file of PyTorch's")
    p.add_argument("--average", action="store_true", help="to-pytorch: of a training with ema the average, by which it was evaluated")
    p.add_argument("--new", action="store_true", help="from-pytorch: the model as PyTorch begins it")
    p.add_argument("--seed", type=int, default=0, help="torch.manual_seed's, for --new")
    p.add_argument("--model", choices=MODELS, required=True)
    p.add_argument("--set", type=option, action="append", default=[], metavar="KEY=VALUE", help="an option of the model: classes=7")
    p.add_argument("-o", "--out", type=pathlib.Path, help="the file to write; from-pytorch needs one")
    a = p.parse_args()
    if (a.source is None) != a.new or (a.new and a.direction == "to-pytorch"):
        p.error("expected one of SOURCE and, with from-pytorch, --new")
    if a.average and a.direction == "from-pytorch":
        p.error("--average needs to-pytorch")
    if a.direction == "from-pytorch" and a.out is None:
        p.error("from-pytorch needs -o FILE")
    torch.manual_seed(a.seed)
    net = MODELS[a.model](**dict(a.set))
    (to_pytorch if a.direction == "to-pytorch" else from_pytorch)(a, net)


if __name__ == "__main__":
    main()
