#include "train/trace_difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace dptrain::train {
namespace {

/// The difference of something that is missing.
constexpr double kAbsent = 1;

/// Sums of squares for a relative difference.
struct Squares {
  double of_difference = 0;
  double of_expected = 0;

  void add(double got, double expected) {
    of_difference += (got - expected) * (got - expected);
    of_expected += expected * expected;
  }
  double relative() const {
    if (of_expected == 0) return of_difference == 0 ? 0 : 1;
    return std::sqrt(of_difference / of_expected);
  }
};

double stage_difference(const StepTrace& got, int number, const StepTrace::Stage& expected) {
  const auto stage = got.stages.find(number);
  if (stage == got.stages.end()) return kAbsent;
  Squares squares;
  for (const auto& [sample, values] : expected.samples) {
    const auto own = stage->second.samples.find(sample);
    if (own == stage->second.samples.end() || own->second.size() != values.size()) return kAbsent;
    for (size_t i = 0; i < values.size(); ++i) squares.add(own->second[i], values[i]);
  }
  return squares.relative();
}

double gradient_difference(const StepTrace& got, const std::string& name, const std::vector<float>& expected) {
  const auto of_ranks = got.gradients.find(name);
  if (of_ranks == got.gradients.end()) return kAbsent;
  const auto unsent = got.unsent.find(name);
  double largest = 0;
  for (std::vector<float> values : of_ranks->second) {
    if (unsent != got.unsent.end()) std::ranges::transform(values, unsent->second, values.begin(), std::plus());
    const double difference = relative_difference(values, expected);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) break;
  }
  return largest;
}

double state_difference(const Trace& got, const nn::NamedValues& expected) {
  const auto own = std::ranges::find(got.state, expected.name, &nn::NamedValues::name);
  return own == got.state.end() ? kAbsent : relative_difference(own->values, expected.values);
}

void add_step(const StepTrace& got, const StepTrace& expected, const std::vector<nn::NamedValues>& state,
              std::vector<LayerDifference>& differences) {
  const int64_t step = expected.numbers.step;
  for (const auto& [number, stage] : expected.stages)
    differences.push_back({.pass = ComparedPass::forward,
                           .step = step,
                           .layer = stage.name,
                           .difference = stage_difference(got, number, stage)});
  Squares of_loss;
  of_loss.add(got.score.mean_loss(), expected.score.mean_loss());
  differences.push_back({.pass = ComparedPass::loss, .step = step, .layer = {}, .difference = of_loss.relative()});
  for (auto tensor = state.rbegin(); tensor != state.rend(); ++tensor) {
    const auto gradient = expected.gradients.find(tensor->name);
    if (gradient == expected.gradients.end()) continue;
    differences.push_back({.pass = ComparedPass::backward,
                           .step = step,
                           .layer = tensor->name,
                           .difference = gradient_difference(got, tensor->name, gradient->second.front())});
  }
}

}  // namespace

std::string_view pass_name(ComparedPass pass) {
  constexpr std::array<std::string_view, 4> kNames = {"forward", "loss", "backward", "weights"};
  return kNames[static_cast<size_t>(pass)];
}

double relative_difference(std::span<const float> got, std::span<const float> expected) {
  if (got.size() != expected.size()) return kAbsent;
  Squares squares;
  for (size_t i = 0; i < got.size(); ++i) squares.add(got[i], expected[i]);
  return squares.relative();
}

std::vector<LayerDifference> trace_differences(const Trace& got, const Trace& expected) {
  std::vector<LayerDifference> differences;
  for (size_t i = 0; i < expected.steps.size(); ++i)
    add_step(got.steps[i], expected.steps[i], expected.state, differences);
  for (const nn::NamedValues& tensor : expected.state)
    if (tensor.tied_to.empty())
      differences.push_back({.pass = ComparedPass::weights,
                             .step = expected.steps.back().numbers.step,
                             .layer = tensor.name,
                             .difference = state_difference(got, tensor)});
  return differences;
}

}  // namespace dptrain::train
