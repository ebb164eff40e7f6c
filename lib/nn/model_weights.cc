// Weights that have memory only while they are needed.
#include "base/check.h"
#include "nn/model.h"

namespace dptrain::nn {

void Model::place_by_runs(Device& device, const InitializationOptions& options, DType compute, const WeightRuns& runs) {
  Beginnings beginnings;
  const auto [trained, frozen] = lay_out({{}}, beginnings);
  device_ = &device;
  std::vector<ParameterRun> cut = runs.cut(*this);
  for (const ParameterRun& run : cut) {
    const Tensor weights = Tensor::zeros(device, {run.end - run.begin}, {.purpose = MemoryPurpose::weights});
    bind_weights(run, weights, {});
    begin_parameters(std::span(parameters_)
                         .subspan(static_cast<size_t>(run.first_parameter),
                                  static_cast<size_t>(run.end_parameter - run.first_parameter)),
                     options, beginnings);
    runs.begun(run, weights);
    release_weights(run, {});
  }
  hold_gradients_by_runs(std::move(cut));
  place_frozen(frozen, options, compute, beginnings);
  place_states(device);
}

void Model::bind_weights(const ParameterRun& run, const Tensor& weights, const Tensor& copies) {
  DPTRAIN_CHECK(weights.defined() != copies.defined(), "a run is bound to values or to copies");
  for (int p = run.first_parameter; p < run.end_parameter; ++p) {
    Parameter& parameter = *parameters_[static_cast<size_t>(p)];
    if (weights.defined()) parameter.bind(window_of(parameter, weights, run.begin));
    if (copies.defined()) parameter.bind_copy(window_of(parameter, copies, run.begin));
  }
}

void Model::release_weights(const ParameterRun& run, const std::function<void()>& take) {
  for (int p = run.first_parameter; p < run.end_parameter; ++p)
    parameters_[static_cast<size_t>(p)]->release_value(take);
}

std::pair<int, int> Model::parameters_of_stage(int index) const {
  const auto end = stage_ends_.begin() + index;
  return {index == 0 ? 0 : *(end - 1), *end};
}

}  // namespace dptrain::nn
