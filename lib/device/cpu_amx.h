#pragma once

#include <string_view>

namespace dptrain {

/// Whether this process may multiply tiles of bf16 with AMX, and ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA) allows it.
/// Asks Linux once and tries the instructions. CPUID alone isn't enough: some virtual machines report AMX and lack it,
/// others have it but don't describe its tiles.
bool cpu_has_amx();

/// Whether a value of ONEDNN_MAX_CPU_ISA allows AMX: "AVX512_CORE_AMX" does, "AVX512_CORE_FP16" doesn't. Case doesn't
/// matter. Names that oneDNN doesn't know allow everything, as in oneDNN.
bool isa_cap_allows_amx(std::string_view value);

}  // namespace dptrain
