#include "plan/exchange_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/call_times.h"
#include "plan/printed_file.h"

namespace dptrain::plan {
namespace {

using nlohmann::json;

struct AllReduce {
  int64_t bytes = 0;
  double seconds = 0;
  Exchanged exchanged = {};  ///< by the first process
};

constexpr int64_t kLeastLarge = 1 << 20;
/// Limits of what bench comm measures.
constexpr int64_t kMostBytes = int64_t{1} << 33, kMostProcesses = 4096;
constexpr double kLeastSeconds = 1e-9, kMostSeconds = 1e6;

[[noreturn]] void refuse(const PrintedFile& file, const std::string& got) {
  file.refuse(
      "expected exchanges between CPU workers of several processes", got,
      "measure them with scripts/launch.sh -H HOSTS -- dptrain bench comm --devices cpu:0 --mb 0.0001,25 --json");
}

/// The number of ranks of each process.
WorldShape shape_of(const PrintedFile& file, const json& document) {
  const json &devices = document.at("devices"), &processes = document.at("processes");
  for (const std::string device : devices)
    if (!device.starts_with("cpu")) refuse(file, device);
  std::vector<int> ranks;
  // Processes are numbered in the order of their ranks.
  for (const json& process : processes) {
    const auto number = process.is_number_integer() ? process.get<double>() : -1;
    const auto before = static_cast<double>(ranks.size());
    if (number == before && number < kMostProcesses) ranks.push_back(0);
    if (ranks.empty() || number != static_cast<double>(ranks.size() - 1))
      file.damaged("processes: " + processes.dump());
    ++ranks.back();
  }
  if (processes.size() != devices.size()) file.damaged("processes: " + processes.dump());
  if (ranks.size() < 2) refuse(file, "one process");
  return WorldShape(ranks);
}

AllReduce all_reduce_of(const PrintedFile& file, const json& row, CallTimes& calls, int ranks) {
  AllReduce one{.bytes = file.integer(row, "bytes", dtype_bytes(DType::f32), kMostBytes),
                .seconds = file.number(row, "seconds", kLeastSeconds, kMostSeconds)};
  const CommBuffer buffer{.elements = one.bytes / dtype_bytes(DType::f32), .dtype = DType::f32};
  one.exchanged =
      calls.exchanged({.call = {.kind = CommKind::all_reduce, .in = buffer, .out = buffer}, .ranks = ranks});
  return one;
}

/// Solves for the two unknowns with which both sizes take the measured times. One size alone gives only a rate.
ExchangeFigures solved(const AllReduce& small, const AllReduce& large) {
  const double determinant =
      small.exchanged.messages * large.exchanged.bytes - large.exchanged.messages * small.exchanged.bytes;
  const double solution =
      determinant > 0 ? (small.seconds * large.exchanged.bytes - large.seconds * small.exchanged.bytes) / determinant
                      : 0;
  // If a small all_reduce took as long as a large one, or as its share of that, bytes would get no time, or too much.
  const double message_s = std::clamp(solution, 0.0, 0.5 * large.seconds / large.exchanged.messages);
  return {.message_s = message_s,
          .bytes_per_s = large.exchanged.bytes / (large.seconds - message_s * large.exchanged.messages)};
}

}  // namespace

ExchangeFigures read_exchange_figures(const std::filesystem::path& path) {
  const PrintedFile file(path, "bench comm");
  std::vector<AllReduce> measured;
  file.read([&](const json& document) {
    const WorldShape shape = shape_of(file, document);
    const DeviceFigures figures;
    CallTimes calls({.world = shape, .devices = {}, .figures = figures, .hosts = HostLinks()});
    for (const json& row : document.at("comm"))
      if (row.at("collective") == "all_reduce") measured.push_back(all_reduce_of(file, row, calls, shape.ranks()));
  });
  if (measured.empty()) file.damaged("no all_reduce");
  const auto [small, large] = std::ranges::minmax_element(measured, {}, &AllReduce::bytes);
  if (large->bytes < kLeastLarge)
    file.refuse("expected an all_reduce of at least one MiB, so that its bytes take most of its time",
                fmt::format("at most {} bytes", large->bytes), "measure with --mb 0.0001,25");
  return solved(*small, *large);
}

}  // namespace dptrain::plan
