#include "device/device_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/lower_case.h"
#include "device/cuda_probe.h"

namespace dptrain {
namespace {

/// Far more devices than any machine has. A larger number is reported as a typing error.
constexpr int kLargestNumber = 4096;

std::optional<int> small_number(std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty() || value < 0 ||
      value > kLargestNumber)
    return std::nullopt;
  return value;
}

/// Guesses what a wrong item was meant to be, for `gpu:0`, `CPU:1`, `cpu` and `cpu:3-1`; "" for all other items.
std::string meant_item(std::string_view item) {
  const auto colon = item.find(':');
  std::string kind = lower_case(item.substr(0, colon));
  if (kind == "gpu") kind = "cuda";
  if (kind != "cpu" && kind != "cuda") return "";
  if (colon == std::string_view::npos) return kind + ":0";
  const std::string_view numbers = item.substr(colon + 1);
  const auto dash = numbers.find('-');
  const auto first = small_number(numbers.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : small_number(numbers.substr(dash + 1));
  if (!first || !last) return "";
  if (*first == *last) return fmt::format("{}:{}", kind, *first);
  return fmt::format("{}:{}-{}", kind, std::min(*first, *last), std::max(*first, *last));
}

[[noreturn]] void refuse(std::string_view where, std::string_view got) {
  const std::string meant = meant_item(got);
  throw Error(ExitCode::config, Mistake{.where = std::string(where),
                                        .expected = "expected a device list",
                                        .got = fmt::format("'{}'", got),
                                        .advice = meant.empty() ? "write for instance cpu:0-1, cuda:0,cuda:1 or auto:2"
                                                                : fmt::format("did you mean {}?", meant)});
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<DeviceId> automatic(int count) {
  const auto gpus = cuda_devices();
  if (count == 0) count = std::max(1, static_cast<int>(gpus.size()));
  std::vector<DeviceId> devices;
  for (int i = 0; i < count; ++i) {
    if (gpus.empty())
      devices.push_back({DeviceKind::cpu, i});
    else
      devices.push_back({DeviceKind::cuda, gpus[static_cast<size_t>(i) % gpus.size()].index});
  }
  return devices;
}

void parse_item(std::string_view item, std::string_view where, int local, std::vector<DeviceId>& devices) {
  const auto colon = item.find(':');
  const auto kind_name = item.substr(0, colon);
  const auto numbers = colon == std::string_view::npos ? std::string_view() : item.substr(colon + 1);
  if (kind_name == "auto") {
    const auto count = colon == std::string_view::npos ? std::optional<int>(0) : small_number(numbers);
    if (!count || (colon != std::string_view::npos && *count == 0)) refuse(where, item);
    const auto found = automatic(*count);
    devices.insert(devices.end(), found.begin(), found.end());
    return;
  }
  if (kind_name != "cpu" && kind_name != "cuda") refuse(where, item);
  const DeviceKind kind = kind_name == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
  if (numbers == "local") {
    devices.push_back({kind, local});
    return;
  }
  const auto dash = numbers.find('-');
  const auto first = small_number(numbers.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : small_number(numbers.substr(dash + 1));
  if (!first || !last || *last < *first) refuse(where, item);
  for (int index = *first; index <= *last; ++index) devices.push_back({kind, index});
}

/// Workers in place of so many devices, and what they do.
std::string workers_instead(size_t devices) {
  const size_t workers = std::min(devices, size_t{kMaxCpuWorkers});
  return workers <= 2 ? "cpu:0-1 trains on two CPU workers"
                      : fmt::format("cpu:0-{} trains on {} CPU workers", workers - 1, workers);
}

}  // namespace

std::vector<DeviceId> parse_device_list(std::string_view text, std::string_view where, int local) {
  std::vector<DeviceId> devices;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    parse_item(trimmed(rest.substr(0, comma)), where, local, devices);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return devices;
}

std::vector<DeviceId> devices_elsewhere(std::string_view names) {
  return names.empty() ? std::vector<DeviceId>() : parse_device_list(names, "devices of another process");
}

void require_devices(const std::vector<DeviceId>& devices, std::string_view where) {
  const auto gpus = cuda_devices();
  for (const auto& device : devices) {
    const bool there = device.kind == DeviceKind::cpu
                           ? device.index < kMaxCpuWorkers
                           : std::ranges::any_of(gpus, [&](const auto& gpu) { return gpu.index == device.index; });
    if (there) continue;
    std::vector<std::string> present;
    for (const auto& gpu : gpus) present.push_back(fmt::format("cuda:{} ({})", gpu.index, gpu.name));
    present.push_back(fmt::format("cpu:0 to cpu:{}", kMaxCpuWorkers - 1));
    std::string reason = gpus.empty() && device.kind == DeviceKind::cuda ? ": " + cuda_absence() : "";
    throw Error(ExitCode::device, Mistake{.where = std::string(where),
                                          .expected = fmt::format("{} is not on this machine{}", device.name(), reason),
                                          .got = "",
                                          .advice = fmt::format("there are {}; --devices {}", fmt::join(present, ", "),
                                                                workers_instead(devices.size()))});
  }
}

std::string device_names(const std::vector<DeviceId>& devices) {
  std::vector<std::string> names;
  for (const auto& device : devices) names.push_back(device.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

bool lists(const std::vector<DeviceId>& devices, DeviceKind kind) {
  return std::ranges::any_of(devices, [kind](const DeviceId& id) { return id.kind == kind; });
}

}  // namespace dptrain
