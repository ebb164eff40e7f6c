#pragma once

namespace dptrain {

/// Whether the CUDA implementations are part of this build. Where they are not, no device of that kind can be opened.
inline constexpr bool kWithCuda = DPTRAIN_WITH_CUDA;

}  // namespace dptrain
