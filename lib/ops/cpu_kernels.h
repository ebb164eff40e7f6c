#pragma once

#include "device/cpu_isa.h"

namespace dptrain::ops {

/// Returns the table of kernels that was compiled for the instruction set `isa`.
template <class Kernels>
const Kernels& kernels_for(CpuIsa isa, const Kernels& baseline, const Kernels& avx2, const Kernels& avx512) {
  switch (isa) {
    case CpuIsa::avx512: return avx512;
    case CpuIsa::avx2: return avx2;
    case CpuIsa::baseline: break;
  }
  return baseline;
}

}  // namespace dptrain::ops
