#pragma once

namespace dptrain {

/// Whether the CUDA implementations are part of this build. Where they are not, no device of that kind can be opened.
inline constexpr bool kWithCuda = DPTRAIN_WITH_CUDA;
/// The same of NCCL.
inline constexpr bool kWithNccl = DPTRAIN_WITH_NCCL;

}  // namespace dptrain
