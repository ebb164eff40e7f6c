#include "plan/measured_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace dptrain::plan {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& expected, const std::string& got,
                         const std::string& advice) {
  throw Error(ExitCode::config, Mistake{.where = file.string(), .expected = expected, .got = got, .advice = advice});
}

json read_document(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream)
    throw Error(ExitCode::missing_file, Mistake{.where = file.string(),
                                                .expected = "expected what dptrain bench ops --json prints",
                                                .got = "no such file",
                                                .advice = "write it with dptrain bench ops --json > FILE"});
  return json::parse(stream);
}

bool is_of(const json& device, DeviceKind kind) {
  return device.at("device").get<std::string>().starts_with(kind == DeviceKind::cuda ? "cuda" : "cpu");
}

void require_alike(const std::filesystem::path& file, const json& device, const MeasuredDevices& wanted) {
  const std::string name = device.at("device");
  if (wanted.figures.kind == DeviceKind::cpu) {
    if (const int threads = device.at("threads"); std::ranges::find(wanted.threads, threads) == wanted.threads.end())
      refuse(file, fmt::format("expected operators of a worker's threads as planned, {}", wanted.threads.front()),
             fmt::format("{} of {}", threads, name), fmt::format("write --set threads={}", threads));
    return;
  }
  const std::string product = device.at("product");
  if (find_gpu(product) != &wanted.figures)
    refuse(file, "expected operators of " + wanted.figures.name, product, "measure them on such a GPU");
}

/// Adds the device's operators; returns the seconds of its step that none of them takes.
double add_operators(const json& device, std::vector<OperatorCost>& calls) {
  for (const json& one : device.at("operators")) {
    const double count = one.at("calls").get<double>();
    calls.push_back({.name = one.at("operator"),
                     .flops = one.at("flops").get<double>() / count,
                     .bytes = static_cast<int64_t>(one.at("bytes").get<double>() / count),
                     .operands = one.at("operands"),
                     .seconds = one.at("seconds").get<double>() / count});
  }
  return std::max(0.0, device.at("step_s").get<double>() - device.at("operators_s").get<double>());
}

}  // namespace

MeasuredOperators read_measured_operators(const std::filesystem::path& file, const MeasuredDevices& wanted) {
  try {
    const json document = read_document(file);
    const std::string precision = document.at("precision");
    MeasuredOperators measured{.calls = {}, .cores = document.at("cores")};
    int devices = 0;
    for (const json& device : document.at("devices")) {
      if (!is_of(device, wanted.figures.kind)) continue;
      require_alike(file, device, wanted);
      measured.beside_s += add_operators(device, measured.calls);
      ++devices;
    }
    if (devices == 0)
      refuse(file, "expected operators measured on " + wanted.figures.name, "none",
             "measure them there with dptrain bench ops --json");
    if (precision != precision_name(wanted.precision))
      refuse(file, fmt::format("expected operators in {}, as planned", precision_name(wanted.precision)), precision,
             "write --set precision=" + precision);
    // A GPU's was measured with waits between its operators, which a step that is recorded doesn't have.
    measured.beside_s = wanted.figures.kind == DeviceKind::cuda ? 0 : measured.beside_s / devices;
    return measured;
  } catch (const json::exception& damage) {
    throw Error(ExitCode::bad_data, Mistake{.where = file.string(),
                                            .expected = "expected what dptrain bench ops --json prints",
                                            .got = damage.what(),
                                            .advice = "write it anew"});
  }
}

}  // namespace dptrain::plan
