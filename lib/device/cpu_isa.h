#pragma once

#include <string_view>

namespace dptrain {

/// Vector instructions that our kernels are compiled for.
enum class CpuIsa { baseline, avx2, avx512 };

/// The instructions that our kernels use: the best that the machine has and the environment allows. oneDNN chooses the
/// same way, because its kernels and ours must agree on the width of a channel block. AMX is separate
/// (device/cpu_amx.h).
CpuIsa cpu_isa();

/// The value of ONEDNN_MAX_CPU_ISA, or of the older DNNL_MAX_CPU_ISA if the first isn't set, as oneDNN reads them.
std::string_view isa_cap_of_environment();

/// The best that a value of ONEDNN_MAX_CPU_ISA, such as "AVX2" or "SSE41", allows. Case doesn't matter. Names that
/// oneDNN doesn't know allow everything, as in oneDNN.
CpuIsa cpu_isa_cap(std::string_view value);
const char* cpu_isa_name(CpuIsa isa);

}  // namespace dptrain
