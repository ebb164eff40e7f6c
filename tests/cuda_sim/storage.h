// What allocations lie in: memory that begins as all ones, NaN in every floating-point type.
#pragma once

#include <cstddef>

namespace dptrain::cuda_sim {

// Null where there is none. Aligned as cudaMalloc aligns.
void* take_storage(std::size_t bytes);
// `bytes` as they were asked for. Whoever still reads it finds all ones, or ends by a fault.
void give_back_storage(void* storage, std::size_t bytes);

}  // namespace dptrain::cuda_sim
