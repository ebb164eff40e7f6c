#include "ops/onednn_version.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace dptrain::ops {

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

CpuIsa onednn_isa() {
  // The values of dnnl::cpu_isa are sets of bits; each contains the bits of the instruction sets that it includes.
  const auto has = [used = static_cast<unsigned>(dnnl::get_effective_cpu_isa())](dnnl::cpu_isa isa) {
    const auto bits = static_cast<unsigned>(isa);
    return (used & bits) == bits;
  };
  if (has(dnnl::cpu_isa::avx512_core)) return CpuIsa::avx512;
  return has(dnnl::cpu_isa::avx2) ? CpuIsa::avx2 : CpuIsa::baseline;
}

}  // namespace dptrain::ops
