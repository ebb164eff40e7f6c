#!/usr/bin/env bash
# The tree configures with no optional part. If a part is required but missing, the error names its option.
#
# Usage: tests/checks/check_configure.sh ROOT
# Prints a sentence for each violation; exits 1 if there is one.
set -euo pipefail
root=${1:?check_configure: needs the root folder of the tree}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bad=0

if ! cmake -S "$root" -B "$folder/without" -DDPTRAIN_CUDA=OFF -DDPTRAIN_NCCL=OFF -DDPTRAIN_MPI=OFF -DDPTRAIN_TESTS=OFF \
    > "$folder/log" 2>&1; then
  cat "$folder/log"
  echo "the tree does not configure without CUDA, NCCL, MPI and tests"
  bad=1
fi

# refused OPTION ARGUMENT...: configuring with the arguments fails and names the option.
refused() {
  if cmake -S "$root" -B "$folder/refused" -DDPTRAIN_CUDA=OFF -DDPTRAIN_NCCL=OFF -DDPTRAIN_MPI=OFF -DDPTRAIN_TESTS=OFF \
      "${@:2}" > "$folder/log" 2>&1; then
    echo "the tree configures with ${*:2}, but is to refuse that"
    bad=1
  elif ! grep -q -- "$1" "$folder/log"; then
    cat "$folder/log"
    echo "the refusal of ${*:2} does not name $1"
    bad=1
  fi
  rm -rf "$folder/refused"
}
refused DPTRAIN_MPI=ON -DDPTRAIN_MPI=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=TRUE
refused DPTRAIN_CUDA=ON -DDPTRAIN_CUDA=ON -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=TRUE
refused DPTRAIN_NCCL=ON -DDPTRAIN_NCCL=ON
if command -v nvcc > /dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
  # An empty path is one that was looked for.
  refused "the headers of cuDNN's frontend" -DDPTRAIN_CUDA=ON -DDPTRAIN_CUDNN_FRONTEND_INCLUDE=
fi
refused DPTRAIN_CUDA -DDPTRAIN_CUDA=maybe
exit "$bad"
