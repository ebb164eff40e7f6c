#!/usr/bin/env bash
# A vendor's header is included only in the files that implement for that vendor, and conditional compilation is used only in the
# floors that have vendors.
#
# Usage: tests/checks/check_vendor_headers.sh ROOT
# Prints FILE:LINE: sentence for each violation; exits 1 if there is one.
set -euo pipefail
cd "${1:?check_vendor_headers: needs the root folder of the tree}"

bad=0
sources() {
  local folder
  for folder in lib apps tests; do
    [[ ! -d $folder ]] || find "$folder" -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh'
  done
}

# only_in HEADERS FILES WHERE: HEADERS are included only in FILES (both regular expressions).
only_in() {
  local hits
  hits=$(sources | xargs -r grep -HnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($1)" | grep -vE "^($2):" || true)
  [[ -n $hits ]] || return 0
  sed -E "s|^([^:]*:[0-9]+):[^<\"]*[<\"]([^>\"]*).*|\1: includes \2, which belongs in $3|" <<< "$hits"
  bad=1
}

only_in 'yaml-cpp/' 'lib/config/[^/]*\.cc' 'one file, lib/config/*.cc'
yaml_files=$(sources | xargs -r grep -lE 'include[[:space:]]*[<"]yaml-cpp/' | grep '^lib/config/' || true)
if (($(wc -w <<< "$yaml_files") > 1)); then
  echo "lib/config: ${yaml_files//$'\n'/ } include yaml-cpp; one file is to"
  bad=1
fi
only_in 'nlohmann/' '(lib/(config|train|plan)/[^/]*\.cc|lib/parallel/trace_events\.cc|lib/plan/printed_file\.h|(apps|tests)/.*)' 'lib/config/*.cc, lib/parallel/trace_events.cc, lib/train/*.cc, lib/plan/*.cc, lib/plan/printed_file.h, which only they include, apps and tests'
only_in 'oneapi/dnnl/|dnnl' 'lib/ops/onednn[^/]*\.(h|cc)' 'lib/ops/onednn*'
only_in 'omp\.h' 'lib/device/[^/]*' 'lib/device'
only_in 'zlib\.h' '(lib/data/[^/]*gzip[^/]*\.cc|tests/.*)' 'lib/data/*gzip*.cc and tests'
only_in '(libpng[0-9]*/)?png\.h' '(lib/data/png_file\.cc|tests/.*)' 'lib/data/png_file.cc and tests'
only_in 'openssl/' 'lib/base/sha256\.cc' 'lib/base/sha256.cc'
only_in 'sentencepiece_' 'lib/data/tokenizer\.cc' 'lib/data/tokenizer.cc'
only_in '(cuda|cudnn|cublas|nccl|mpi)[A-Za-z0-9_]*\.h|cuda/|cub/' \
  '(lib/(device|ops|comm)/([^/]*_)?(cuda|cudnn|nccl|mpi)(_[^/]*)?\.(h|cc|cu|cuh)|tests/cuda_sim/.*)' \
  'a file of lib/device, lib/ops or lib/comm with cuda, cudnn, nccl or mpi in its name, or in tests/cuda_sim'
only_in 'CLI/' 'apps/.*' 'apps'

conditions=$(sources | grep -E '^(lib|apps)/' | grep -vE '^lib/(device|ops|comm)/' |
  xargs -r grep -HnE '^[[:space:]]*#[[:space:]]*(if|ifdef|ifndef|elif)\b' || true)
if [[ -n $conditions ]]; then
  sed -E 's|^([^:]*:[0-9]+):.*|\1: conditional compilation belongs in lib/device, lib/ops and lib/comm; elsewhere choose a file in CMake|' <<< "$conditions"
  bad=1
fi
exit "$bad"
