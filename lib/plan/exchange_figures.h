#pragma once

#include <filesystem>

#include "plan/links_file.h"

namespace dptrain::plan {

/// From what `dptrain bench comm --json` has printed of CPU workers of several processes over links as good as free:
/// from the smallest and the largest all_reduce. Throws 66 where the file isn't there, 65 where it is something else,
/// 78 where it was measured in one process, on GPUs, or of small buffers alone.
ExchangeFigures read_exchange_figures(const std::filesystem::path& path);

}  // namespace dptrain::plan
