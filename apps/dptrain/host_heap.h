#pragma once

namespace dptrain::app {

/// From here on a large block of host memory goes back to the system as soon as it is freed. By itself glibc keeps
/// blocks of up to 32 MB for later, on every thread: what initial weights and checkpoints pass through stayed with the
/// process for good.
void give_large_blocks_back();

}  // namespace dptrain::app
