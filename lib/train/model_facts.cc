#include "train/model_facts.h"

#include "train/strategy_context.h"

namespace dptrain::train {

ModelFacts facts_of(const Experiment& experiment, const Dataset& data) {
  const auto device = open_device(experiment.devices.front());
  const auto model = experiment.model.build({.device = *device, .convolution = experiment.convolution},
                                            strategy_context(experiment, data).replica.input);
  ModelFacts facts{.units = model->stage_count()};
  for (int i = 0; i < facts.units; ++i) {
    model->stage(i).visit_parameters([&](const std::string&, const Parameter& parameter, const nn::Initializer&) {
      facts.gradient_bytes += 4 * parameter.shape().elements();
    });
    model->stage(i).visit_states([&](const std::string&, nn::RunningState&) { facts.batch_norms = true; });
  }
  return facts;
}

}  // namespace dptrain::train
