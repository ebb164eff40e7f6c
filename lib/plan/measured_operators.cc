#include "plan/measured_operators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "plan/printed_file.h"

namespace dptrain::plan {
namespace {

using nlohmann::json;

/// Upper limits of possible measurements.
constexpr double kMostOperatorSeconds = 1e6, kMostFlops = 1e24;
constexpr int64_t kMostOperatorBytes = int64_t{1} << 50, kMostCalls = 1'000'000'000, kMostCores = 1'000'000;

bool is_of(const json& device, DeviceKind kind) {
  return device.at("device").get<std::string>().starts_with(kind == DeviceKind::cuda ? "cuda" : "cpu");
}

void require_alike(const PrintedFile& file, const json& device, const MeasuredDevices& wanted) {
  const std::string name = device.at("device");
  if (wanted.figures.kind == DeviceKind::cpu) {
    const int64_t threads = file.integer(device, "threads", 1, kMostCores), planned = wanted.threads.front();
    if (threads != planned)
      file.refuse(fmt::format("expected operators measured with {} threads per worker, as planned", planned),
                  fmt::format("{} on {}", threads, name), fmt::format("write --set threads={}", threads));
    return;
  }
  const std::string product = device.at("product");
  if (find_gpu(product) != &wanted.figures)
    file.refuse("expected operators measured on " + wanted.figures.name, product, "measure them on such a GPU");
}

/// Adds the device's operators; returns the seconds of its step outside of its operators.
double add_operators(const PrintedFile& file, const json& device, std::vector<MeasuredCalls>& calls) {
  for (const json& one : device.at("operators")) {
    const int64_t count = file.integer(one, "calls", 1, kMostCalls);
    const auto each = static_cast<double>(count);
    calls.push_back({.one = {.name = one.at("operator"),
                             .flops = file.number(one, "flops", 0, kMostFlops) / each,
                             .bytes = file.integer(one, "bytes", 0, kMostOperatorBytes) / count,
                             .operands = one.at("operands"),
                             .seconds = file.number(one, "seconds", 0, kMostOperatorSeconds) / each},
                     .count = count});
  }
  return std::max(0.0, file.number(device, "step_s", 0, kMostOperatorSeconds) -
                           file.number(device, "operators_s", 0, kMostOperatorSeconds));
}

}  // namespace

MeasuredOperators read_measured_operators(const std::filesystem::path& path, const MeasuredDevices& wanted) {
  const PrintedFile file(path, "bench ops");
  if (std::ranges::adjacent_find(wanted.threads, std::not_equal_to()) != wanted.threads.end() &&
      wanted.figures.kind == DeviceKind::cpu)
    file.refuse("measured operators need the same number of threads in each worker",
                fmt::format("threads [{}]", fmt::join(wanted.threads, ", ")), "write --set threads=1");
  MeasuredOperators measured;
  file.read([&](const json& document) {
    measured.cores = static_cast<int>(file.integer(document, "cores", 1, kMostCores));
    int devices = 0;
    for (const json& device : document.at("devices")) {
      if (!is_of(device, wanted.figures.kind)) continue;
      require_alike(file, device, wanted);
      measured.beside_s += add_operators(file, device, measured.calls);
      ++devices;
    }
    if (devices == 0)
      file.refuse("expected operators measured on " + wanted.figures.name, "none",
                  "measure them there with dptrain bench ops --json");
    if (measured.calls.empty()) file.damaged("no operators");
    if (std::ranges::none_of(measured.calls, [](const MeasuredCalls& calls) { return calls.one.seconds > 0; }))
      file.damaged("operators that take no time");
    if (const std::string precision = document.at("precision"); precision != precision_name(wanted.precision))
      file.refuse(fmt::format("expected operators measured in {}, as planned", precision_name(wanted.precision)),
                  precision, "write --set precision=" + precision);
    // For a GPU, that time includes waits between operators, which a recorded step doesn't have.
    measured.beside_s = wanted.figures.kind == DeviceKind::cuda ? 0 : measured.beside_s / devices;
  });
  return measured;
}

}  // namespace dptrain::plan
