#pragma once

#include <memory>
#include <vector>

#include "models/layer_list.h"
#include "models/model_registry.h"

namespace dptrain::models {

/// The net of a list of layers: (N, C, H, W) -> (N, classes). Shapes follow from the image; each layer of the list,
/// with those computed in its pass, is a stage. Throws 78, with the place of the layer, where a shape doesn't fit or
/// the last is not [N, classes].
std::unique_ptr<nn::Model> build_layered_net(const std::vector<LayerSpec>& layers, const nn::LayerOptions& options,
                                             const ModelInput& input);

}  // namespace dptrain::models
