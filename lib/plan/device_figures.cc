#include "plan/device_figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

#include "base/error.h"
#include "base/lower_case.h"
#include "comm/tree_sum.h"

namespace dptrain::plan {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

/// An assumption until there are measurements: large products of cuDNN and cuBLAS reach about half of the data sheets'
/// figures, and operators that only read and write memory reach four fifths.
constexpr double kShareOfProducts = 0.5, kShareOfMemory = 0.8;

/// The least time of a kernel in a recorded step; also an assumption.
constexpr double kKernel_s = 3e-6;

/// The table of devices. GPUs have dense figures (no sparsity) and link rates in one direction.
std::vector<DeviceFigures> make_table() {
  const auto gpu = [](DeviceFigures figures) {
    figures.kind = DeviceKind::cuda;
    figures.operator_s = kKernel_s;
    return figures;
  };
  return {
      gpu({.name = "h200",
           .fp32_flops = 67 * kTera,
           .tf32_flops = 494.7 * kTera,
           .half_flops = 989.4 * kTera,
           .memory_bytes = 141 * kGiga,
           .memory_bytes_per_s = 4800 * kGiga,
           .inside = {.latency_s = 5e-6, .bytes_per_s = 450 * kGiga},
           .staging_bytes_per_s = 55 * kGiga,
           .source = "NVIDIA H200 SXM data sheet (NVLink 4: 900 GB/s both ways, PCIe 5.0 x16); latencies assumed"}),
      gpu({.name = "h100",
           .fp32_flops = 67 * kTera,
           .tf32_flops = 494.7 * kTera,
           .half_flops = 989.4 * kTera,
           .memory_bytes = 80 * kGiga,
           .memory_bytes_per_s = 3350 * kGiga,
           .inside = {.latency_s = 5e-6, .bytes_per_s = 450 * kGiga},
           .staging_bytes_per_s = 55 * kGiga,
           .source = "NVIDIA H100 SXM data sheet (NVLink 4: 900 GB/s both ways, PCIe 5.0 x16); latencies assumed"}),
      gpu({.name = "a100",
           .fp32_flops = 19.5 * kTera,
           .tf32_flops = 156 * kTera,
           .half_flops = 312 * kTera,
           .memory_bytes = 80 * kGiga,
           .memory_bytes_per_s = 2039 * kGiga,
           .inside = {.latency_s = 5e-6, .bytes_per_s = 300 * kGiga},
           .staging_bytes_per_s = 27 * kGiga,
           .source =
               "NVIDIA A100 80GB SXM data sheet (NVLink 3: 600 GB/s both ways, PCIe 4.0 x16); latencies assumed"}),
      gpu({.name = "k80",
           .fp32_flops = 4.37 * kTera,
           .tf32_flops = 4.37 * kTera,
           .half_flops = 4.37 * kTera,
           .memory_bytes = 12 * kGiga,
           .memory_bytes_per_s = 240 * kGiga,
           .inside = {.latency_s = 20e-6, .bytes_per_s = 8 * kGiga},
           .staging_bytes_per_s = 8 * kGiga,
           .source = "one of the two GPUs in NVIDIA's Tesla K80 data sheet (8.73 TFLOP/s, 480 GB/s; PCIe 3.0 x16, half "
                     "of it assumed)"}),
      {.name = "cpu",
       .kind = DeviceKind::cpu,
       .fp32_flops = 0.1 * kTera,
       .tf32_flops = 0.1 * kTera,
       .half_flops = 0.1 * kTera,
       .memory_bytes_per_s = 10 * kGiga,
       .inside = {.latency_s = 20e-6, .bytes_per_s = 8 * kGiga},
       .source = "a guess for a worker of one core, to be corrected by measurements; sums: docs/results/comm-speed.md"},
  };
}

}  // namespace

double DeviceFigures::flops(Precision precision) const {
  switch (precision) {
    case Precision::fp32: return fp32_flops;
    case Precision::tf32: return tf32_flops;
    case Precision::bf16:
    case Precision::fp16: return half_flops;
  }
  return fp32_flops;
}

const std::vector<DeviceFigures>& known_devices() {
  static const std::vector<DeviceFigures> table = make_table();
  return table;
}

const DeviceFigures* find_device(std::string_view name) {
  const auto found = std::ranges::find(known_devices(), name, &DeviceFigures::name);
  return found == known_devices().end() ? nullptr : &*found;
}

const DeviceFigures* find_gpu(std::string_view product) {
  const std::string lower = lower_case(product);
  const auto found = std::ranges::find_if(known_devices(), [&](const DeviceFigures& figures) {
    return figures.kind == DeviceKind::cuda && lower.find(figures.name) != std::string::npos;
  });
  return found == known_devices().end() ? nullptr : &*found;
}

namespace {

/// "4xh200" for h200, h200:4 and 4*h200; "" for a text that names no GPU.
std::string meant_devices(std::string_view text) {
  std::string_view name;
  for (const DeviceFigures& known : known_devices())
    if (known.kind == DeviceKind::cuda && text.find(known.name) != std::string_view::npos &&
        known.name.size() > name.size())
      name = known.name;
  if (name.empty()) return "";
  std::string rest(text);
  rest.erase(rest.find(name), name.size());
  std::erase_if(rest, [](unsigned char letter) { return std::isdigit(letter) == 0; });
  return fmt::format("{}x{}", rest.empty() ? "1" : rest, name);
}

}  // namespace

std::optional<CountedDevices> parse_counted_devices(std::string_view text, std::string_view where) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits >= text.size() || text[digits] != 'x') {
    const std::string meant = meant_devices(text);
    if (meant.empty()) return std::nullopt;
    throw Error(ExitCode::config, Mistake{.where = std::string(where),
                                          .expected = "expected a device list, or a number of devices of one kind",
                                          .got = fmt::format("'{}'", text),
                                          .advice = "write " + meant});
  }
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, count);
  const DeviceFigures* figures = find_device(text.substr(digits + 1));
  if (figures != nullptr && error == std::errc() && count >= 1 && count <= kMostRanks)
    return CountedDevices{.count = count, .figures = figures};
  std::vector<std::string> names;
  for (const DeviceFigures& known : known_devices()) names.push_back(known.name);
  throw Error(ExitCode::config, Mistake{.where = std::string(where),
                                        .expected = fmt::format("expected 1 to {} devices of one of these kinds: {}",
                                                                kMostRanks, fmt::join(names, ", ")),
                                        .got = fmt::format("'{}'", text),
                                        .advice = "write for instance 16xh200"});
}

double operator_seconds(const OperatorCost& cost, const DeviceFigures& device, Precision precision) {
  const bool is_gpu = device.kind == DeviceKind::cuda;
  // Copies to and from the host are limited by the host link, not by the device's memory.
  const bool is_staged = is_gpu && (cost.name == "upload" || cost.name == "download");
  const double bandwidth = is_staged ? device.staging_bytes_per_s : device.memory_bytes_per_s * kShareOfMemory;
  const double products = cost.flops / (device.flops(precision) * kShareOfProducts);
  return std::max({products, static_cast<double>(cost.bytes) / bandwidth, device.operator_s});
}

}  // namespace dptrain::plan
