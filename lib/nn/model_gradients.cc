// Where a model's gradients are in memory, and how long they stay.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "nn/model.h"

namespace dptrain::nn {

Tensor Model::window_of(const Parameter& parameter, const Tensor& flat, int64_t begin) const {
  return flat.window(offset(parameter) - begin, parameter.shape(), parameter.layout());
}

void Model::bind_gradients(const Tensor& flat) {
  gradients_ = flat;
  for (Parameter* parameter : parameters_) parameter->bind_gradient(window_of(*parameter, gradients_));
}

void Model::hold_gradients_by_runs(std::vector<ParameterRun> runs) {
  std::ranges::sort(runs, {}, &ParameterRun::begin);
  gradients_ = {};
  gradient_runs_.clear();
  for (const ParameterRun& run : runs) gradient_runs_.push_back({.run = run, .gradients = {}});
  for (GradientRun& held : gradient_runs_) release_gradients_of(held);
}

void Model::take_gradients_of(GradientRun& held) {
  const ParameterRun& run = held.run;
  held.gradients = Tensor::empty(device(), {run.end + run.padding - run.begin}, {.purpose = MemoryPurpose::gradients});
  for (int p = run.first_parameter; p < run.end_parameter; ++p) {
    Parameter& parameter = *parameters_[static_cast<size_t>(p)];
    parameter.bind_gradient(window_of(parameter, held.gradients, run.begin));
    // An operator writes all of a gradient, but not the padding between it and the next.
    const int64_t end = offset(parameter) + parameter.gradient().storage_elements();
    const int64_t next =
        p + 1 < run.end_parameter ? offset(*parameters_[static_cast<size_t>(p) + 1]) : run.end + run.padding;
    if (next > end) held.gradients.window(end - run.begin, {next - end}, Layout::plain).fill_zero();
  }
}

void Model::release_gradients_of(GradientRun& held) {
  for (int p = held.run.first_parameter; p < held.run.end_parameter; ++p)
    parameters_[static_cast<size_t>(p)]->release_gradient([this, &held] { take_gradients_of(held); });
  held.gradients = {};
}

Tensor Model::gradients(int64_t begin, int64_t end) const {
  const auto window = [&](const Tensor& flat, int64_t from) {
    return flat.window(begin - from, {end - begin}, Layout::plain);
  };
  if (gradients_.defined()) return window(gradients_, 0);
  for (const auto& [run, gradients] : gradient_runs_)
    if (run.begin <= begin && begin < run.end && end <= run.end + run.padding && gradients.defined())
      return window(gradients, run.begin);
  DPTRAIN_CHECK(false, "elements {} to {} are no part of a run of gradients that has memory", begin, end);
  return {};
}

void Model::for_gradients(const std::function<void(int64_t begin, const Tensor& gradients)>& body) const {
  if (gradients_.defined()) return body(0, gradients_);
  for (const auto& [run, gradients] : gradient_runs_) body(run.begin, gradients);
}

void Model::forget_gradients(const ParameterRun& run) {
  for (int p = run.first_parameter; p < run.end_parameter; ++p) parameters_[static_cast<size_t>(p)]->forget_gradient();
  for (GradientRun& held : gradient_runs_)
    if (held.run.begin == run.begin) release_gradients_of(held);
}

void Model::forget_gradients() {
  for (Parameter* parameter : parameters_) parameter->forget_gradient();
  for (GradientRun& held : gradient_runs_) release_gradients_of(held);
}

}  // namespace dptrain::nn
