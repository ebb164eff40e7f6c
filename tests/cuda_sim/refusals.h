// What a library that has offered something may still refuse to run.
#pragma once

#include <cstdlib>
#include <string_view>

namespace dptrain::cuda_sim {

// DPTRAIN_CUDA_SIM_REFUSES=fused: products with an epilogue, convolutions with a bias or ReLU.
inline bool refuses_fused() {
  const char* const refuses = std::getenv("DPTRAIN_CUDA_SIM_REFUSES");
  return refuses != nullptr && std::string_view(refuses) == "fused";
}

}  // namespace dptrain::cuda_sim
