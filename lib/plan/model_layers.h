#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model_registry.h"
#include "tensor/shape.h"

namespace dptrain::plan {

/// One stage of a model, or its head.
struct ModelLayer {
  std::string name;            ///< as nn::Model::stage_name gives it; for a head, the common prefix of its parts' names
  std::vector<Shape> outputs;  ///< of one sample, for instance [64, 28, 28]; only a head has more than one
  int64_t parameters = 0;      ///< elements without padding; a tied tensor counts for the stage that owns it
  int64_t frozen = 0;          ///< the part of them that isn't trained
  double flops = 0;            ///< of products in the forward pass of one sample
};

/// The trained elements that an optimizer updates with the same factors.
struct UpdateShare {
  ops::UpdateFactors factors = {};
  int64_t elements = 0;
};

/// A model's stages, followed by its head if it has one.
struct ModelLayers {
  Shape input;                ///< of one sample: images [C, H, W], text [S]
  int64_t running_state = 0;  ///< elements that are saved with the model but not trained: statistics of batch norms
  std::vector<ModelLayer> layers;
  std::vector<UpdateShare> updates = {};  ///< by factors, in the order of their first parameters

  int64_t parameters() const;
  int64_t frozen() const;
  double flops() const;
};

/// The number of elements of a whole model's parameters, allocated or not, counted as for a ModelLayer.
struct ParameterCounts {
  int64_t all = 0;
  int64_t frozen = 0;
};
ParameterCounts parameter_counts(nn::Model& model);

/// Finds the layers by evaluating one sample on a device that computes nothing, so that a model of any size takes no
/// memory. A text sample is `input.text->sequence` tokens long, and all of its tokens are predicted. Throws 78 if the
/// model can't take such an input.
ModelLayers layers_of(const models::ModelSpec& spec, const models::ModelInput& input);

}  // namespace dptrain::plan
