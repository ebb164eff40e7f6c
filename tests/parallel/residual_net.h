#pragma once

#include "config/config_document.h"
#include "models/model_registry.h"

namespace dptrain::parallel {

/// A small ResNet-like net for digits: five batch norms, two of them with a residual, and one of these with a shortcut
/// of its own.
inline models::ModelSpec residual_net() {
  models::ModelSpec net;
  const ConfigSession session(parse_config("model:\n"
                                           "  layers:\n"
                                           "    - conv: {channels: 8, kernel: 5, stride: 4, bias: false}\n"
                                           "    - batch_norm\n"
                                           "    - relu\n"
                                           "    - residual:\n"
                                           "        layers:\n"
                                           "          - conv: {channels: 8, kernel: 3, padding: 1, bias: false}\n"
                                           "          - batch_norm\n"
                                           "    - relu\n"
                                           "    - residual:\n"
                                           "        layers:\n"
                                           "          - conv: {channels: 20, kernel: 3, stride: 2, padding: 1}\n"
                                           "          - batch_norm\n"
                                           "          - relu\n"
                                           "          - conv: {channels: 20, kernel: 3, padding: 1, bias: false}\n"
                                           "          - batch_norm\n"
                                           "        shortcut:\n"
                                           "          - conv: {channels: 20, kernel: 1, stride: 2}\n"
                                           "          - batch_norm\n"
                                           "    - relu\n"
                                           "    - global_avg_pool\n"
                                           "    - linear: classes\n",
                                           "net.yaml"),
                              [&](ConfigReader& reader) { net = models::read_model(reader); });
  return net;
}

/// The channels of each batch norm of the net.
inline constexpr int64_t kResidualNetChannels[] = {8, 8, 20, 20, 20};

}  // namespace dptrain::parallel
