#pragma once

#include <string>
#include <string_view>

namespace dptrain {

/// What multiplies bf16 faster than f32 here.
enum class Bf16Unit {
  none,    ///< bf16 is widened, and computed in f32
  avx512,  ///< products of pairs of bf16, twice as many as of f32
  amx,     ///< products of tiles
};

/// Asked of the processor once. The unit is a fixed rule of the processor's make, never a measurement: Intel's
/// processors have AVX-512's pairs, too, at the rate of f32, AMD's at twice that rate.
Bf16Unit cpu_bf16_unit();

/// Whether the processor has AVX-512's products of pairs of bf16, at whatever rate.
bool cpu_has_bf16_pairs();

/// Whether a value of ONEDNN_MAX_CPU_ISA allows those: "AVX512_CORE_BF16" does, "AVX512_CORE_VNNI" doesn't. Case
/// doesn't matter, and names that aren't oneDNN's allow everything, as there.
bool isa_cap_allows_bf16(std::string_view value);

/// What our kernels use of this machine, for people: "avx2", "avx512", "avx512 and bf16", "avx512 and amx".
std::string cpu_instructions();

}  // namespace dptrain
