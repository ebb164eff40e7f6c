#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model_registry.h"
#include "tensor/shape.h"

namespace dptrain::plan {

/// A stage of a model, or its head.
struct ModelLayer {
  std::string name;            ///< as nn::Model::stage_name has it; of a head what the names of its parts begin with
  std::vector<Shape> outputs;  ///< of one sample, [64, 28, 28]; more than one of a head alone
  int64_t parameters = 0;      ///< elements, padding not counted; a tied tensor is of the stage that owns it
  int64_t frozen = 0;          ///< of these, those that aren't trained
  double flops = 0;            ///< of products, in the forward pass of one sample
};

/// Trained elements that an optimizer updates by the same factors.
struct UpdateShare {
  ops::UpdateFactors factors = {};
  int64_t elements = 0;
};

/// A model's stages, then its head where it has one.
struct ModelLayers {
  Shape input;                ///< of one sample: images [C, H, W], text [S]
  int64_t running_state = 0;  ///< elements that are saved with the model and not trained: statistics of batch norms
  std::vector<ModelLayer> layers;
  std::vector<UpdateShare> updates = {};  ///< by factors, in the order of their first parameters

  int64_t parameters() const;
  int64_t frozen() const;
  double flops() const;
};

/// Elements of a whole model's parameters, placed or not, counted as those of a ModelLayer are.
struct ParameterCounts {
  int64_t all = 0;
  int64_t frozen = 0;
};
ParameterCounts parameter_counts(nn::Model& model);

/// By the evaluation of one sample on a device that computes nothing, so that a model of any size takes no memory; a
/// sample of text is `input.text->sequence` tokens long, and all of them are predicted. Throws 78 where the model can't
/// take such an input.
ModelLayers layers_of(const models::ModelSpec& spec, const models::ModelInput& input);

}  // namespace dptrain::plan
