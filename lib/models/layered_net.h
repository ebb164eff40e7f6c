#pragma once

#include <memory>
#include <vector>

#include "models/layer_list.h"
#include "models/model_registry.h"

namespace dptrain::models {

/// The net of a list of layers: [N, C, H, W] -> [N, classes], or of a list that begins with an embedding, tokens
/// [N, S] -> the outputs of the pretraining head that it ends in. Shapes follow from the data set's; each layer of the
/// list, with those computed in its pass, is a stage, and the pretraining head is the model's. Throws 78, with the
/// place of the layer, where a shape doesn't fit or the last layer makes no such output.
std::unique_ptr<nn::Model> build_layered_net(const std::vector<LayerSpec>& layers, const nn::LayerOptions& options,
                                             const ModelInput& input);

}  // namespace dptrain::models
