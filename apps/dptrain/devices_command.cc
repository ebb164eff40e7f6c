#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text_table.h"
#include "commands.h"
#include "device/cpu_bf16.h"
#include "device/cuda_probe.h"
#include "device/device_list.h"
#include "device/host_machine.h"
#include "output.h"
#include "program.h"

namespace dptrain::app {
namespace {

double gigabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

/// One line for each device and each list of parts, wrapped to the terminal's width.
std::string as_text() {
  const auto line = [width = terminal_width(STDOUT_FILENO, kAnyWidth)](const std::string& head,
                                                                       const std::vector<std::string>& items) {
    return wrapped_list(head, items, width);
  };
  const auto memory = [](int64_t bytes) { return fmt::format("{:.1f} GB of memory", gigabytes(bytes)); };
  std::string text = line(fmt::format("cpu:0 to cpu:{}  ", kMaxCpuWorkers - 1),
                          {"logical workers on " + cpu_model_name(), fmt::format("{} cores to use", usable_cores()),
                           cpu_instructions(), memory(host_memory_bytes())});
  for (const auto& gpu : cuda_devices())
    text += line(fmt::format("cuda:{}  ", gpu.index),
                 {gpu.name, fmt::format("compute capability {}", gpu.compute_capability), memory(gpu.memory_bytes)});
  if (const auto reason = cuda_absence(); !reason.empty()) text += line("cuda    ", {reason});
  text += line("with: ", parts_present());
  return parts_absent().empty() ? text : text + line("without: ", parts_absent());
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
