#pragma once

#include <memory>
#include <vector>

#include "models/layer_list.h"
#include "models/model_registry.h"

namespace dptrain::models {

/// Builds a net from a list of layers: [N, C, H, W] -> [N, classes]. If the list begins with an embedding, the net
/// takes tokens [N, S] and returns the outputs of the pretraining head that ends the list. Shapes follow from the data
/// set. Each layer of the list, together with the layers computed in its pass, is a stage; the pretraining head becomes
/// the model's head. Throws 78, with the place of the layer, if a shape doesn't fit or the last layer doesn't make such
/// an output.
std::unique_ptr<nn::Model> build_layered_net(const std::vector<LayerSpec>& layers, const nn::LayerOptions& options,
                                             const ModelInput& input);

}  // namespace dptrain::models
