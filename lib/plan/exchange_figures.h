#pragma once

#include <filesystem>

#include "plan/links_file.h"

namespace dptrain::plan {

/// Reads figures from the output of `dptrain bench comm --json`, measured with CPU workers of several processes over
/// links that are practically free. They follow from the smallest and the largest all_reduce. Throws 66 if the file is
/// missing, 65 if it is something else, 78 if it was measured in one process, on GPUs, or only with small buffers.
ExchangeFigures read_exchange_figures(const std::filesystem::path& path);

}  // namespace dptrain::plan
