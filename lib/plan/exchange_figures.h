#pragma once

#include <filesystem>

namespace dptrain::plan {

/// What a process's cores take for what they exchange with other processes.
struct ExchangeFigures {
  double message_s = 0;    ///< of each message that it sends or receives
  double bytes_per_s = 0;  ///< at which they add up, and hand on what is sent and received
};

/// From what `dptrain bench comm --json` has printed of CPU workers of several processes over links as good as free:
/// from the smallest and the largest all_reduce. Throws 66 where the file isn't there, 65 where it is something else,
/// 78 where it was measured in one process, on GPUs, or of small buffers alone.
ExchangeFigures read_exchange_figures(const std::filesystem::path& path);

}  // namespace dptrain::plan
