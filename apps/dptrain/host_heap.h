#pragma once

namespace dptrain::app {

/// Makes the heap return each large block of host memory to the system as soon as it is freed. By default glibc keeps
/// freed blocks of up to 32 MB on every thread, so that the buffers of initial weights and checkpoints would stay with
/// the process for good.
void give_large_blocks_back();

}  // namespace dptrain::app
