#include "device/cpu_bf16.h"

#include <algorithm>
#include <array>

#include "base/lower_case.h"
#include "device/cpu_amx.h"
#include "device/cpu_isa.h"

namespace dptrain {

bool cpu_has_bf16_pairs() { return __builtin_cpu_supports("avx512bf16"); }

bool isa_cap_allows_bf16(std::string_view value) {
  if (cpu_isa_cap(value) != CpuIsa::avx512) return false;
  const std::string name = lower_case(value);
  constexpr std::array<std::string_view, 4> kBelow = {"avx512_core", "avx512_core_vnni", "avx512_mic",
                                                      "avx512_mic_4ops"};
  return std::find(kBelow.begin(), kBelow.end(), name) == kBelow.end();
}

Bf16Unit cpu_bf16_unit() {
  static const Bf16Unit unit = [] {
    if (cpu_has_amx()) return Bf16Unit::amx;
    const bool pairs = cpu_isa() == CpuIsa::avx512 && cpu_has_bf16_pairs() &&
                       isa_cap_allows_bf16(isa_cap_of_environment()) && __builtin_cpu_is("amd");
    return pairs ? Bf16Unit::avx512 : Bf16Unit::none;
  }();
  return unit;
}

std::string cpu_instructions() {
  const std::string isa = cpu_isa_name(cpu_isa());
  switch (cpu_bf16_unit()) {
    case Bf16Unit::amx: return isa + " and amx";
    case Bf16Unit::avx512: return isa + " and bf16";
    case Bf16Unit::none: break;
  }
  return isa;
}

}  // namespace dptrain
