#include "train/operator_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "device/cuda_probe.h"
#include "device/host_machine.h"

namespace dptrain::train {
namespace {

constexpr double kGiga = 1e9, kMilli = 1e-3;

/// For operators that multiply, products per second; for others, bytes of memory per second.
std::string rate_of(const OperatorTime& time) {
  if (time.seconds <= 0) return "-";
  if (time.flops > 0) return fmt::format("{:.0f} GFLOP/s", time.flops / time.seconds / kGiga);
  return fmt::format("{:.1f} GB/s", static_cast<double>(time.bytes) / time.seconds / kGiga);
}

/// "NVIDIA H200"; empty for a CPU worker.
std::string gpu_product(const DeviceId& device) {
  if (device.kind == DeviceKind::cpu) return {};
  const auto gpus = cuda_devices();
  const auto found = std::ranges::find(gpus, device.index, &CudaDeviceInfo::index);
  return found == gpus.end() ? std::string() : found->name;
}

std::string table_of(const DeviceOperators& found, int width) {
  std::vector<TableColumn> columns = {{.header = "ms", .cells = {}},
                                      {.header = "share", .cells = {}},
                                      {.header = "calls", .cells = {}},
                                      {.header = "rate", .cells = {}},
                                      {.header = "operator", .cells = {}, .left_aligned = true},
                                      {.header = "way", .cells = {}, .left_aligned = true},
                                      {.header = "operands", .cells = {}, .left_aligned = true}};
  const auto share = [&](double seconds) { return fmt::format("{:.1f} %", 100 * seconds / found.step_s); };
  const auto milliseconds = [](double seconds) { return fmt::format("{:.3f}", seconds / kMilli); };
  for (const OperatorTime& time : found.operators)
    add_row(columns, {milliseconds(time.seconds), share(time.seconds), std::to_string(time.calls), rate_of(time),
                      time.name, time.way, time.operands});
  const double rest = std::max(0.0, found.step_s - found.operators_s());
  add_row(columns, {milliseconds(rest), share(rest), "", "", "outside operators", "", ""});
  return text_table(columns, width);
}

}  // namespace

std::string OperatorReport::text(int width) const {
  std::string text;
  for (const DeviceOperators& found : devices) {
    if (!text.empty()) text += "\n";
    const std::string threads = found.device.kind == DeviceKind::cpu
                                    ? fmt::format(", {} thread{}", found.threads, found.threads == 1 ? "" : "s")
                                    : std::string();
    text +=
        wrapped(fmt::format("{}: a training step of {} in {}, {} sample{}, on {}{}: {:.3f} ms, {:.0f} samples/s", run,
                            model, precision, found.samples, found.samples == 1 ? "" : "s", found.device.name(),
                            threads, found.step_s / kMilli, static_cast<double>(found.samples) / found.step_s),
                width);
    text += table_of(found, width);
  }
  return text;
}

std::string OperatorReport::json() const {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  for (const DeviceOperators& found : devices) {
    ordered_json operators = ordered_json::array();
    for (const OperatorTime& time : found.operators)
      operators.push_back({{"operator", time.name},
                           {"operands", time.operands},
                           {"way", time.way.empty() ? ordered_json(nullptr) : ordered_json(time.way)},
                           {"calls", time.calls},
                           {"seconds", time.seconds},
                           {"flops", time.flops},
                           {"bytes", time.bytes}});
    const std::string product = gpu_product(found.device);
    list.push_back({{"device", found.device.name()},
                    {"product", product.empty() ? ordered_json(nullptr) : ordered_json(product)},
                    {"threads", found.threads},
                    {"samples", found.samples},
                    {"step_s", found.step_s},
                    {"operators_s", found.operators_s()},
                    {"operators", operators}});
  }
  const ordered_json document = {{"schema", 1},
                                 {"run", run},
                                 {"model", model},
                                 {"precision", precision},
                                 {"cpu", cpu_model_name()},
                                 {"cores", usable_cores()},
                                 {"devices", list}};
  return document.dump(2) + "\n";
}

}  // namespace dptrain::train
