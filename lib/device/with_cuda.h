#pragma once

namespace dptrain {

/// Whether the CUDA implementations are part of this build. If not, no device of kind `cuda` can be opened.
inline constexpr bool kWithCuda = DPTRAIN_WITH_CUDA;
/// Whether NCCL is part of this build.
inline constexpr bool kWithNccl = DPTRAIN_WITH_NCCL;

}  // namespace dptrain
