#include "train/arithmetic_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/cpu_isa.h"
#include "device/device_list.h"
#include "train/shards_setting.h"

namespace dptrain::train {
namespace {

Precision read_precision(ConfigReader& config, const std::vector<DeviceId>& devices) {
  constexpr std::array kPrecisions = {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16};
  std::vector<std::string> names;
  for (const Precision precision : kPrecisions) names.emplace_back(precision_name(precision));
  const std::string name = config.one_of(
      "precision", names, "fp32",
      "type of activations and products; weights and sums are f32 in every precision. tf32 and fp16 are for GPUs only");
  const auto found = std::ranges::find(kPrecisions, name, precision_name);
  if (config.describing() || found == kPrecisions.end() || *found == Precision::fp32) return Precision::fp32;
  const bool of_gpus = *found != Precision::bf16;
  if (of_gpus && lists(devices, DeviceKind::cpu))
    config.mistake("precision", "CPU workers compute in fp32 or bf16", name, "write one of these, or list GPUs only");
  return *found;
}

parallel::Recompute read_recompute(ConfigReader& config) {
  const std::vector<std::string> names = {"auto", "batch_norm", "none"};
  const std::string name = config.one_of("recompute", names, "auto",
                                         "what the backward pass computes again instead of keeping it: the outputs of "
                                         "batch norms, or nothing; auto: batch_norm on CPU workers, none on GPUs");
  if (name == "batch_norm") return parallel::Recompute::batch_norm;
  return name == "none" ? parallel::Recompute::none : parallel::Recompute::automatic;
}

parallel::BatchNormMode read_batch_norm(ConfigReader& config) {
  std::vector<std::string> names;
  for (const parallel::BatchNormMode mode : parallel::kBatchNormModes)
    names.emplace_back(parallel::batch_norm_mode_name(mode));
  const std::string name =
      config.one_of("batch_norm", names, "local",
                    "what batch norms share over the devices. local: nothing, and evaluations use the first device's "
                    "running statistics; sync: batch statistics; average: the mean of running statistics, after every "
                    "step; first: the first device's running statistics, before every step");
  const auto found = std::ranges::find(parallel::kBatchNormModes, name, parallel::batch_norm_mode_name);
  return found == std::end(parallel::kBatchNormModes) ? parallel::BatchNormMode::local : *found;
}

/// The names that the user may choose depend on the devices.
ops::ConvolutionAlgorithm read_convolution(ConfigReader& config, const Experiment& experiment) {
  const std::vector<std::string> names = {"auto", "direct", "winograd", "measured"};
  const std::string name = config.one_of("convolution", names, "auto",
                                         "how convolutions are computed. auto: on CPU workers by a fixed rule of shape "
                                         "and machine, on GPUs by measuring, unless deterministic");
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    config.mistake("convolution", expected, got, "write convolution: auto");
  };
  if (config.describing() || name == "auto") return ops::ConvolutionAlgorithm::automatic;
  if (name == "measured") {
    if (lists(experiment.devices, DeviceKind::cpu))
      refuse("CPU workers choose the algorithm by a fixed rule", name);
    else if (experiment.deterministic)
      refuse("measuring may choose differently in each run", "measured with deterministic: true");
    return ops::ConvolutionAlgorithm::automatic;
  }
  if (name == "direct") return ops::ConvolutionAlgorithm::direct;
  if (lists(experiment.devices, DeviceKind::cpu) && cpu_isa() == CpuIsa::baseline)
    refuse("winograd needs a CPU with AVX2", cpu_isa_name(cpu_isa()));
  if (lists(experiment.devices, DeviceKind::cuda) && experiment.precision != Precision::fp32)
    refuse("winograd needs fp32 on a GPU", fmt::format("winograd with {}", precision_name(experiment.precision)));
  return ops::ConvolutionAlgorithm::winograd;
}

}  // namespace

void read_arithmetic(ConfigReader& config, Experiment& experiment) {
  experiment.precision = read_precision(config, experiment.devices);
  experiment.deterministic =
      config.boolean("deterministic", !lists(experiment.devices, DeviceKind::cuda),
                     "repeated runs are bit-identical: always on CPU workers, at a price on GPUs");
  config.default_varies("deterministic");
  experiment.cuda_graphs = config.boolean("cuda_graphs", true,
                                          "GPUs record the second step of each batch size as CUDA graphs and replay "
                                          "them from then on; false: every step is done operator by operator");
  experiment.convolution = read_convolution(config, experiment);
  experiment.recompute = read_recompute(config);
  experiment.batch_norm = read_batch_norm(config);
  experiment.shards = read_shards(config, experiment);
}

}  // namespace dptrain::train
