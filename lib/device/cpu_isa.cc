#include "device/cpu_isa.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/lower_case.h"

namespace dptrain {
namespace {

CpuIsa isa_of_machine() {
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx512) return CpuIsa::avx512;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? CpuIsa::avx2 : CpuIsa::baseline;
}

}  // namespace

std::string_view isa_cap_of_environment() {
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

CpuIsa cpu_isa_cap(std::string_view value) {
  const std::string name = lower_case(value);
  if (name == "sse41" || name == "avx") return CpuIsa::baseline;
  if (name == "avx2" || name == "avx2_vnni" || name == "avx2_vnni_2") return CpuIsa::avx2;
  return CpuIsa::avx512;
}

CpuIsa cpu_isa() {
  static const CpuIsa isa = std::min(isa_of_machine(), cpu_isa_cap(isa_cap_of_environment()));
  return isa;
}

const char* cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::baseline: return "baseline";
    case CpuIsa::avx2: return "avx2";
    case CpuIsa::avx512: return "avx512";
  }
  return "";
}

}  // namespace dptrain
