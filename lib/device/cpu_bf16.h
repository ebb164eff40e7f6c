#pragma once

#include <string>
#include <string_view>

namespace dptrain {

/// The unit that multiplies bf16 faster than f32 on this machine.
enum class Bf16Unit {
  none,    ///< bf16 is widened and computed in f32
  avx512,  ///< products of pairs of bf16, at twice the rate of f32
  amx,     ///< products of tiles
};

/// Returns the unit, determined once. It follows from the kind of processor, never from a measurement. Intel's
/// processors also have AVX-512's pairs, but at the rate of f32; AMD's run them at twice that rate.
Bf16Unit cpu_bf16_unit();

/// Whether the processor has AVX-512's products of pairs of bf16, at whatever rate.
bool cpu_has_bf16_pairs();

/// Whether a value of ONEDNN_MAX_CPU_ISA allows products of pairs of bf16: "AVX512_CORE_BF16" does, "AVX512_CORE_VNNI"
/// doesn't. Case doesn't matter. Names that oneDNN doesn't know allow everything, as in oneDNN.
bool isa_cap_allows_bf16(std::string_view value);

/// The instructions that our kernels use on this machine, as text: "avx2", "avx512", "avx512 and bf16", "avx512 and
/// amx".
std::string cpu_instructions();

}  // namespace dptrain
