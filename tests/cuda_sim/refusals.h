// What a library may refuse to run although it has offered it.
#pragma once

#include <cstdlib>
#include <string_view>

namespace dptrain::cuda_sim {

// DPTRAIN_CUDA_SIM_REFUSES=fused refuses products with an epilogue, and convolutions with a bias or ReLU.
inline bool refuses_fused() {
  const char* const refuses = std::getenv("DPTRAIN_CUDA_SIM_REFUSES");
  return refuses != nullptr && std::string_view(refuses) == "fused";
}

}  // namespace dptrain::cuda_sim
