#pragma once

#include <string_view>

namespace dptrain {

/// Vector instructions that our kernels are compiled for.
enum class CpuIsa { baseline, avx2, avx512 };

/// What our kernels use: the most that the machine has and the environment allows, as oneDNN itself does: its kernels
/// and ours must agree on the width of a channel block. AMX is told apart (device/cpu_amx.h).
CpuIsa cpu_isa();

/// The value of ONEDNN_MAX_CPU_ISA, or of the older DNNL_MAX_CPU_ISA where that says nothing: as oneDNN reads them.
std::string_view isa_cap_of_environment();

/// The most that a value of ONEDNN_MAX_CPU_ISA allows: "AVX2", "SSE41". Case doesn't matter, and names that aren't
/// oneDNN's allow everything, as there.
CpuIsa cpu_isa_cap(std::string_view value);
const char* cpu_isa_name(CpuIsa isa);

}  // namespace dptrain
