// Kernel launches.
#include <cstdio>

#include "cuda_runtime.h"
#include "grid.h"
#include "runtime.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

constexpr std::size_t kSharedBytes = 227 * 1024;  // per block, with opt-in, at compute capability 9.0

// Empty if the configuration is valid. Source: Programming Guide, table "Technical specifications per compute
// capability".
std::string fault(const cudaLaunchConfig_t& config) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const auto triple = [](const dim3& d) {
    return '(' + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ')';
  };
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return "expected a grid of at least one block, got " + triple(grid);
  if (block.x == 0 || block.y == 0 || block.z == 0) return "expected at least one thread, got " + triple(block);
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || std::uint64_t{block.x} * block.y * block.z > 1024) {
    return "expected a block of at most 1024 threads, 64 in z, got " + triple(block);
  }
  if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) {
    return "expected a grid of at most (2147483647, 65535, 65535) blocks, got " + triple(grid);
  }
  if (config.dynamicSmemBytes > kSharedBytes) {
    return "expected at most " + std::to_string(kSharedBytes) + " bytes of shared memory, got " +
           std::to_string(config.dynamicSmemBytes);
  }
  return {};
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (const std::string why = fault(config); !why.empty()) {
    return refuse(cudaErrorInvalidConfiguration, kernel_name(kernel) + ": " + why);
  }
  CUstream_st* stream = find_stream(config.stream);
  if (stream == nullptr || stream->device != caller().device) {
    return refuse(
        cudaErrorInvalidResourceHandle,
        kernel_name(kernel) + ": the stream is not one of the current device, " + std::to_string(caller().device));
  }
  Grid grid{config.gridDim, config.blockDim, kernel, std::move(thread)};
  Work work;
  work.body = [grid = std::move(grid)] {
    const std::string error = run_grid(grid);
    if (error.empty()) return cudaSuccess;
    std::fprintf(stderr, "cuda_sim: %s\n", error.c_str());
    return cudaErrorLaunchFailure;
  };
  return finish(submit(*stream, work));
}

}  // namespace dptrain::cuda_sim
