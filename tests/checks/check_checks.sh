#!/usr/bin/env bash
# Every check fires: the checks run on a small tree that satisfies them all, then on the same tree with one broken rule at a time.
#
# Usage: tests/checks/check_checks.sh ROOT
# Prints a sentence for each check that let its violation pass; exits 1 if there is one.
set -euo pipefail
checks=$(cd "${1:?check_checks: needs the root folder of the tree}/tests/checks" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
bad=0
count=0

clean_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{apps/dptrain,lib/{base,config,ops,optim,data,comm,train},scripts,tests}
  printf 'BasedOnStyle: Google\n' > "$tree/.clang-format"
  printf '#include "config/a.h"\n\n#include <string>\n\n#include "base/a.h"\n' > "$tree/lib/config/a.cc"
  printf '#pragma once\n' | tee "$tree/lib/base/a.h" > "$tree/lib/config/a.h"
  printf '#include <dnnl.hpp>\n' > "$tree/lib/ops/onednn.cc"
  printf '#!/usr/bin/env bash\n# Usage: scripts/a.sh\nset -euo pipefail\n' > "$tree/scripts/a.sh"
  chmod +x "$tree/scripts/a.sh"
  mkdir -p "$tree/docs"
  printf '# A page\n\n## Two `words`\n\n[here](#two-words), [there](../README.md#a-page)\n' > "$tree/docs/a.md"
  printf '# A page\n\n[docs](docs/a.md#two-words), [folder](docs), [far](https://a.b/c#d)\n' > "$tree/README.md"
  cat > "$tree/lib/CMakeLists.txt" << 'END'
dptrain_floor(base)
dptrain_floor(config FLOORS base VENDOR yaml)
dptrain_floor(optim FLOORS nn config
              base)
dptrain_floor(data FLOORS base)
END
  cat > "$tree/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.22)
project(tree LANGUAGES NONE)
foreach(part CUDA NCCL MPI)
  if(NOT DPTRAIN_${part} STREQUAL "OFF")
    message(FATAL_ERROR "DPTRAIN_${part}=${DPTRAIN_${part}} is refused without the headers of cuDNN's frontend")
  endif()
endforeach()
END
}

# passes CHECK: the check has nothing to report about the current tree. Without clang-format its check is skipped.
passes() {
  local said status=0
  said=$("$checks/check_$1.sh" "$tree" 2>&1) || status=$?
  ((status == 0 || status == 77)) || { echo "check_$1 complains of a clean tree: $said"; bad=1; }
}

# fires CHECK PATTERN: the check refuses the current tree with words that match the pattern. Afterward the tree is clean again.
fires() {
  local said status=0
  said=$("$checks/check_$1.sh" "$tree" 2>&1) || status=$?
  if [[ $1 == format && $status == 77 ]]; then
    echo "check_format could not be tried: $said"
  elif ((status != 1)) || ! grep -qE -- "$2" <<< "$said"; then
    echo "check_$1 returned $status and said nothing of '$2': ${said:-(silence)}"
    bad=1
  fi
  count=$((count + 1))
  clean_tree
}

# plant FILE TEXT: adds a line to a file of the tree.
plant() {
  printf '%s\n' "$2" >> "$tree/$1"
}

clean_tree
for check in layers vendor_headers sockets configure format words links; do
  passes "$check"
done

plant lib/base/a.cc '#include "config/a.h"'
fires layers 'lib/base/a.cc:1: base includes config/a.h, but config is a floor above'
plant lib/data/a.cc '#include "comm/a.h"'
fires layers 'data includes comm/a.h, but comm stands beside it'
plant lib/train/a.cc '#include "config/a.h"'
fires layers 'does not list config among the FLOORS of train'
plant lib/config/b.cc '#include "../base/a.h"'
fires layers 'is of no floor'
plant lib/config/b.cc '#include "dptrain/main.h"'
fires layers 'is of no floor'
plant lib/base/b.cc '# include <train/a.h>'
fires layers 'train is a floor above'
mkdir "$tree/lib/attic" && plant lib/attic/a.cc '#include "base/a.h"'
fires layers 'lib/attic is not one of the floors'
plant lib/optim/a.cc '#include "nn/module.h"'
passes layers
clean_tree

plant lib/train/a.cc '#include <yaml-cpp/yaml.h>'
fires vendor_headers 'lib/train/a.cc:1: includes yaml-cpp/yaml.h'
plant lib/config/a.cc '#include <yaml-cpp/yaml.h>'
plant lib/config/b.cc '#include <yaml-cpp/yaml.h>'
fires vendor_headers 'one file is to'
plant lib/train/a.h '#include <nlohmann/json.hpp>'
fires vendor_headers 'lib/train/a.h:1: includes nlohmann'
plant lib/ops/conv2d.cc '#include "oneapi/dnnl/dnnl.hpp"'
fires vendor_headers 'belongs in lib/ops/onednn'
plant lib/ops/a.cc '#include <omp.h>'
fires vendor_headers 'belongs in lib/device'
plant lib/data/a.cc '#include <zlib.h>'
fires vendor_headers 'gzip'
plant lib/data/a.cc '#include <png.h>'
fires vendor_headers 'png_file'
plant lib/data/a.cc '#include <sentencepiece_trainer.h>'
fires vendor_headers 'tokenizer'
plant lib/train/a.cc '#include <openssl/evp.h>'
fires vendor_headers 'sha256'
for header in cuda_runtime_api.h cudnn.h nccl.h mpi.h; do
  plant lib/comm/compile.cc "#include <$header>"
  fires vendor_headers "compile.cc:1: includes $header"
done
plant apps/dptrain/cuda_devices.cc '#include <cuda_runtime.h>'
fires vendor_headers 'cuda_devices.cc:1: includes cuda_runtime.h'
plant lib/train/a.cc '#include <CLI/CLI.hpp>'
fires vendor_headers 'belongs in apps'
for condition in 'if 1' 'ifdef A' 'ifndef A_H'; do
  plant lib/train/a.h "#$condition"
  fires vendor_headers 'lib/train/a.h:1: conditional compilation'
done
plant lib/comm/nccl_communicator.cc '#include <nccl.h>'
plant lib/data/gzip_file.cc '#include <zlib.h>'
plant lib/data/png_file.cc '#include <png.h>'
plant lib/ops/conv2d.cc '#if 1'
passes vendor_headers
clean_tree

for use in '#include <sys/socket.h>' '#include <netinet/tcp.h>' '#include <boost/asio.hpp>' 'int s = ::socket(2, 1, 0);' 'listen(s, 5);' \
  'if (::bind(s, a, n) != 0) return;' 'accept4(s, a, n, 0);' '  connect(s, a, n);' 'syscall(SYS_socket, 2, 1, 0);'; do
  plant apps/dptrain/a.cc "$use"
  fires sockets 'apps/dptrain/a.cc:1: uses a socket'
done
plant lib/base/a.cc 'syscall(SYS_pidfd_open, pid, 0); parameter->bind(x); std::bind(f); link.connect(peer); void reconnect(int); a::listen(b);'
passes sockets
clean_tree

plant CMakeLists.txt 'message(FATAL_ERROR "broken")'
fires configure 'does not configure without CUDA, NCCL, MPI and tests'
plant CMakeLists.txt 'message(STATUS "all is well")'
sed -i 's/FATAL_ERROR "DPTRAIN.*"/STATUS "anything goes"/' "$tree/CMakeLists.txt"
fires configure 'configures with -DDPTRAIN_MPI=ON .* but is to refuse'
sed -i 's/FATAL_ERROR "DPTRAIN.*"/FATAL_ERROR "no"/' "$tree/CMakeLists.txt"
fires configure 'refusal of -DDPTRAIN_MPI=ON .* does not name DPTRAIN_MPI=ON'

plant lib/base/a.cc 'int   a ;'
fires format 'lib/base/a.cc:1'

for word in 'TO''DO' 'FIX''ME' 'XX''X'; do
  plant lib/base/a.cc "// $word: later"
  fires words 'lib/base/a.cc:1: a note of work put off'
done
for name in utils.h string_utils.cc helpers.cc common.h misc.cc memory_manager.h; do
  plant "lib/base/$name" ''
  fires words "lib/base/$name: this name says nothing"
done
chmod -x "$tree/scripts/a.sh"
fires words 'scripts/a.sh: not executable'
sed -i 's/Usage/How/' "$tree/scripts/a.sh"
fires words "scripts/a.sh: no '# Usage:'"
sed -i '/pipefail/d' "$tree/scripts/a.sh"
fires words "scripts/a.sh: no 'set -euo pipefail'"
plant scripts/a.sh 'if then'
fires words "scripts/a.sh: bash can't parse it"

plant README.md '[a](docs/b.md)'
fires links 'README.md:4: the link docs/b.md leads nowhere: no file docs/b.md'
plant docs/a.md '[a](#three-words), [b](../README.md)'
fires links 'docs/a.md:6: the link #three-words leads nowhere: docs/a.md has no heading'
plant docs/a.md '[a](../README.md#two-words)'
fires links 'docs/a.md:6: the link ../README.md#two-words leads nowhere: README.md has no heading'
plant docs/a.md '    [a](b.md)'
passes links
clean_tree

echo "$count violations planted"
exit "$bad"
