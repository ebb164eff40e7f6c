#!/usr/bin/env bash
# Installs a build into a temporary folder, moves the folder, and uses it there: the program finds the configurations and data sets
# beside itself.
#
# Usage: tests/checks/check_install.sh BUILD_FOLDER
set -euo pipefail

(($# == 1)) || { echo "check_install: expected the build folder" >&2; exit 64; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$1" --prefix "$folder/first" > /dev/null
mv "$folder/first" "$folder/moved"
cd "$folder"
for file in bin/dptrain share/dptrain/configs/lenet_ddp_2cpu.yaml share/dptrain/datasets/mnist-10k/README.md \
  share/doc/dptrain/README.md share/doc/dptrain/LICENSE share/doc/dptrain/configuration.md; do
  [[ -f moved/$file ]] || { echo "check_install: $file was not installed" >&2; exit 1; }
done
moved/bin/dptrain --config moved/share/dptrain/configs/lenet_ddp_2cpu.yaml --set steps=2 --set epochs= --out run --quiet
moved/bin/dptrain hash run > /dev/null
