// The memory of allocations. It begins as all ones, which is NaN in every floating-point type.
#pragma once

#include <cstddef>

namespace dptrain::cuda_sim {

// Null where there is no memory left. Aligned as cudaMalloc aligns.
void* take_storage(std::size_t bytes);
// `bytes` must be the number that was asked for. Code that still reads the memory finds all ones, or ends by a fault.
void give_back_storage(void* storage, std::size_t bytes);

}  // namespace dptrain::cuda_sim
