#pragma once

#include <string_view>

namespace dptrain {

/// Whether this process may multiply tiles of bf16 by AMX, and ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA) allows it.
/// Asked of Linux and of the processor itself, once: there are virtual machines that name AMX among their instructions
/// and have none, and others that have it and don't describe its tiles.
bool cpu_has_amx();

/// Whether a value of ONEDNN_MAX_CPU_ISA allows AMX: "AVX512_CORE_AMX" does, "AVX512_CORE_FP16" doesn't. Case doesn't
/// matter, and names that aren't oneDNN's allow everything, as there.
bool isa_cap_allows_amx(std::string_view value);

}  // namespace dptrain
