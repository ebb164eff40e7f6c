#include "plan/exchange_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/cluster.h"

namespace dptrain::plan {
namespace {

using nlohmann::json;

struct AllReduce {
  int64_t bytes = 0;
  double seconds = 0;
  Exchanged exchanged = {};  ///< by the first process
};

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& got) {
  throw Error(
      ExitCode::config,
      Mistake{.where = file.string(),
              .expected = "expected what CPU workers of several processes exchange",
              .got = got,
              .advice = "measure it with scripts/launch.sh -H HOSTS -- dptrain bench comm --devices cpu:0 --json"});
}

/// By process, how many ranks it has.
WorldShape shape_of(const std::filesystem::path& file, const json& document) {
  for (const std::string device : document.at("devices"))
    if (!device.starts_with("cpu")) refuse(file, device);
  std::vector<int> ranks;
  for (const size_t process : document.at("processes")) {
    ranks.resize(std::max(ranks.size(), process + 1));
    ++ranks[process];
  }
  if (ranks.size() < 2) refuse(file, "one process");
  return WorldShape(ranks);
}

AllReduce all_reduce_of(const json& row, CallTimes& calls, int ranks) {
  AllReduce one{.bytes = row.at("bytes"), .seconds = row.at("seconds")};
  const CommBuffer buffer{.elements = one.bytes / dtype_bytes(DType::f32), .dtype = DType::f32};
  one.exchanged =
      calls.exchanged({.call = {.kind = CommKind::all_reduce, .in = buffer, .out = buffer}, .ranks = ranks});
  return one;
}

/// The two unknowns that make both take as long as they did. One size tells of a rate alone.
ExchangeFigures solved(const AllReduce& small, const AllReduce& large) {
  const double determinant =
      small.exchanged.messages * large.exchanged.bytes - large.exchanged.messages * small.exchanged.bytes;
  const double message_s =
      determinant > 0 ? (small.seconds * large.exchanged.bytes - large.seconds * small.exchanged.bytes) / determinant
                      : 0;
  // A small one may be faster than its share of the large one.
  const double at_least = std::clamp(message_s, 0.0, 0.5 * large.seconds / large.exchanged.messages);
  return {.message_s = at_least,
          .bytes_per_s = large.exchanged.bytes / (large.seconds - at_least * large.exchanged.messages)};
}

}  // namespace

ExchangeFigures read_exchange_figures(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream)
    throw Error(ExitCode::missing_file, Mistake{.where = file.string(),
                                                .expected = "expected what dptrain bench comm --json prints",
                                                .got = "no such file",
                                                .advice = "write it with dptrain bench comm --json > FILE"});
  try {
    const json document = json::parse(stream);
    const WorldShape shape = shape_of(file, document);
    const DeviceFigures figures;
    CallTimes calls({.world = shape, .devices = {}, .figures = figures, .hosts = HostLinks()});
    std::vector<AllReduce> measured;
    for (const json& row : document.at("comm"))
      if (row.at("collective") == "all_reduce") measured.push_back(all_reduce_of(row, calls, shape.ranks()));
    if (measured.empty()) refuse(file, "no all_reduce");
    const auto [small, large] = std::ranges::minmax_element(measured, {}, &AllReduce::bytes);
    return solved(*small, *large);
  } catch (const json::exception& damage) {
    throw Error(ExitCode::bad_data, Mistake{.where = file.string(),
                                            .expected = "expected what dptrain bench comm --json prints",
                                            .got = damage.what(),
                                            .advice = "write it anew"});
  }
}

}  // namespace dptrain::plan
