// Checks for what cublasLtMatmul refuses. Source of the rules: cublasLt.h and the cuBLAS documentation, section
// "cublasLtMatmul()".
#pragma once

#include <cstdint>
#include <string>

#include "cublaslt_descriptors.h"

namespace dptrain::cuda_sim {

inline constexpr std::uint32_t kVectorBytes = 16;  // the widest access of a kernel, and so its strictest alignment

// Checks shapes, types and epilogue; with `with_pointers` also the epilogue's pointers, which the heuristic needn't
// know.
cublasStatus_t check_matmul(const Matmul& m, const MatmulDesc& desc, bool with_pointers);

// Empty, or why the device can't reach all of the `bytes` bytes at `data`. `alignment` is the alignment that the
// algorithm was chosen for. Called with the lock held.
std::string fault_of_range(const char* name, const void* data, std::uint64_t bytes, std::uint64_t alignment);
// Checks the range of every matrix and of the epilogue's vectors, as fault_of_range does.
std::string fault_of_memory(const Matmul& m, const Alignments& alignments);

}  // namespace dptrain::cuda_sim
