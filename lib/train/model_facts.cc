#include "train/model_facts.h"

#include "train/strategy_context.h"

namespace dptrain::train {

ModelFacts facts_of(const Experiment& experiment, const Dataset& data) {
  const auto device = open_device(experiment.devices.front(), {.counts_only = true});
  const auto model = experiment.model.build({.device = *device, .convolution = experiment.convolution},
                                            strategy_context(experiment, data).replica.input);
  ModelFacts facts;
  for (int i = 0; i < model->stage_count(); ++i) {
    const int64_t before = facts.gradient_bytes;
    model->stage(i).visit_parameters([&](const std::string&, const Parameter& parameter, const nn::Initializer&) {
      if (!parameter.is_frozen()) facts.gradient_bytes += 4 * parameter.shape().elements();
    });
    facts.has_parameters.push_back(facts.gradient_bytes > before);
    model->stage(i).visit_states([&](const std::string&, nn::RunningState&) { facts.batch_norms = true; });
  }
  return facts;
}

}  // namespace dptrain::train
