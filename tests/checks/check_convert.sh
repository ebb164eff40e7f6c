#!/usr/bin/env bash
# Which weights of a run scripts/convert_pytorch.py chooses. The check needs no PyTorch: the script's modules are empty ones.
#
# Usage: tests/checks/check_convert.sh ROOT
# Prints a sentence for each violation; exits 1 if there is one, 77 without python3.
set -euo pipefail
root=${1:?check_convert: needs the root folder of the tree}
command -v python3 > /dev/null || { echo "python3, which scripts/convert_pytorch.py runs in, is not installed"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A run with two complete checkpoints, one that a killed process left unfinished, one that was set aside, and one without a
# manifest.
for step in step-000009 step-1000000 step-1000001.tmp-7 step-2000000.aside step-3000000; do
  mkdir -p "$folder/run/checkpoints/$step"
  touch "$folder/run/checkpoints/$step/"{manifest.json,model.safetensors}
done
rm "$folder/run/checkpoints/step-3000000/manifest.json"
mkdir -p "$folder/killed/checkpoints/step-000001.tmp-7"
touch "$folder/killed/checkpoints/step-000001.tmp-7/model.safetensors"

python3 -B - "$root/scripts" "$folder" << 'END_OF_PYTHON'
import pathlib
import sys
from unittest import mock

for name in ("torch", "safetensors", "safetensors.torch", "pytorch_models", "golden"):
    sys.modules[name] = mock.MagicMock()
sys.path.insert(0, sys.argv[1])
from convert_pytorch import weights_file

folder = pathlib.Path(sys.argv[2])
newest = folder / "run/checkpoints/step-1000000"
bad = [f"of {given} it takes {weights_file(given)}" for given in (folder / "run", newest, newest / "model.safetensors")
       if weights_file(given) != newest / "model.safetensors"]
try:
    bad.append(f"of a run that was killed in its first checkpoint it takes {weights_file(folder / 'killed')}")
except SystemExit as refusal:
    if "found no weights" not in str(refusal):
        bad.append(f"of a run without weights it says: {refusal}")
for sentence in bad:
    print(f"scripts/convert_pytorch.py: {sentence}")
sys.exit(bool(bad))
END_OF_PYTHON
