// One grid, run on the calling host thread: blocks one after the other, the threads of a block as fibers.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

namespace dptrain::cuda_sim {

struct Grid {
  dim3 grid;
  dim3 block;
  const void* kernel = nullptr;  // for messages
  std::function<void()> thread;
};

// The kernel's name where the dynamic symbol table has it (link with -rdynamic), else its address.
std::string kernel_name(const void* kernel);

// Empty, or why the grid couldn't continue: barriers and warp exchanges that wait for each other forever.
std::string run_grid(const Grid& grid);

}  // namespace dptrain::cuda_sim
