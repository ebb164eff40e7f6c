#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "device/cpu_amx.h"
#include "device/cpu_device.h"
#include "device/cuda_probe.h"
#include "device/device_list.h"
#include "output.h"
#include "program.h"

namespace dptrain::app {
namespace {

double gigabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

std::string as_text() {
  std::string text = fmt::format("cpu:0 to cpu:{}  logical workers on {}, {} cores to use, {}, {:.1f} GB of memory\n",
                                 kMaxCpuWorkers - 1, cpu_model_name(), usable_cores(), cpu_instructions(),
                                 gigabytes(host_memory_bytes()));
  for (const auto& gpu : cuda_devices())
    text += fmt::format("cuda:{}  {}, compute capability {}, {:.1f} GB of memory\n", gpu.index, gpu.name,
                        gpu.compute_capability, gigabytes(gpu.memory_bytes));
  if (const auto reason = cuda_absence(); !reason.empty()) text += fmt::format("cuda    {}\n", reason);
  return text +
         fmt::format("with: {}\nwithout: {}\n", fmt::join(parts_present(), ", "), fmt::join(parts_absent(), ", "));
}

std::string as_json() {
  using nlohmann::ordered_json;
  ordered_json gpus = ordered_json::array();
  for (const auto& gpu : cuda_devices())
    gpus.push_back({{"device", fmt::format("cuda:{}", gpu.index)},
                    {"name", gpu.name},
                    {"compute_capability", gpu.compute_capability},
                    {"memory_bytes", gpu.memory_bytes}});
  const ordered_json document = {{"cpu",
                                  {{"name", cpu_model_name()},
                                   {"workers", kMaxCpuWorkers},
                                   {"cores", usable_cores()},
                                   {"instructions", cpu_instructions()},
                                   {"memory_bytes", host_memory_bytes()}}},
                                 {"cuda", gpus},
                                 {"cuda_absence", cuda_absence()},
                                 {"with", parts_present()},
                                 {"without", parts_absent()}};
  return document.dump(2) + "\n";
}

}  // namespace

Run add_devices_command(CLI::App& command) {
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "one JSON document");
  return [json] {
    write_output(*json ? as_json() : as_text());
    return 0;
  };
}

}  // namespace dptrain::app
