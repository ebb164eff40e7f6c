#include "parallel/unit_profile.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "ops/reorder.h"
#include "optim/parameter_norms.h"

namespace dptrain::parallel {
namespace {

/// Number of samples if the size of micro-batches isn't known.
constexpr int64_t kUsualSamples = 8;
/// Passes of a stage. The first pass lets libraries choose algorithms; it isn't timed, and its backward runs as two
/// passes.
constexpr int kPasses = 3;
/// One of this many tokens is predicted: about BERT's 15 %.
constexpr int64_t kTokensOfMask = 7;

/// Values without a pattern that could make computing faster.
std::vector<float> made_up_values(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i * 37 % 101) / 101.f - 0.5f;
  return values;
}

BatchPart made_up_text(const models::TextSizes& sizes, int64_t samples) {
  BatchPart part;
  const int64_t rows = samples * sizes.sequence;
  for (int64_t row = 0; row < rows; ++row) {
    part.text.tokens.push_back(static_cast<int32_t>(row * 37 % sizes.vocabulary));
    part.text.segments.push_back(static_cast<int32_t>(row % sizes.sequence * 2 / sizes.sequence));
  }
  part.text.lengths.assign(static_cast<size_t>(samples), static_cast<int32_t>(sizes.sequence));
  part.targets = {{}, std::vector<int32_t>(static_cast<size_t>(samples))};
  for (int64_t row = 0; row < rows; row += kTokensOfMask) {
    part.text.predicted.push_back(static_cast<int32_t>(row));
    part.targets[0].push_back(0);
  }
  pad_predicted(part);
  for (int64_t n = 0; n < samples; ++n) part.sample_ids.push_back(n);
  return part;
}

/// The values that go through the model's stages, one stage after the other.
class Profile {
 public:
  Profile(const StrategyContext& context, Device& device)
      : spec_(context.replica), device_(device), dtype_(compute_dtype(spec_.precision)) {
    if (context.team.logged) operator_s_ = context.team.logged->operator_s;
    const int64_t samples = context.micro_batch_samples > 0 ? context.micro_batch_samples : kUsualSamples;
    if (spec_.input.text) {
      const BatchPart part = made_up_text(*spec_.input.text, samples);
      TextOnDevice text = cut_text(uploaded_values(device, DType::i32, text_numbers(part)), part);
      value_ = text.tokens;
      text_ = text.inputs;
    } else {
      const Shape& image = spec_.input.image;
      const Shape shape = {samples, image[0], image[1], image[2]};
      value_ = ops::converted(Tensor::from(device, shape, made_up_values(shape.elements())), {.dtype = dtype_});
    }
    std::vector<int64_t> ids(static_cast<size_t>(samples));
    ids_ = uploaded_values(device, DType::i64, ids);
    epoch_ = uploaded_values(device, DType::i32, std::vector<int32_t>{1});
  }

  /// Measures unit `unit`; its output becomes the next unit's input.
  UnitCost measure(int unit) {
    const auto model = spec_.model.build({.device = device_, .convolution = spec_.convolution}, spec_.input);
    const CachingAllocator& allocator = device_.allocator();
    const int64_t before = allocator.in_use().total_bytes();
    model->place(device_, spec_.initialization, dtype_, {{.begin = unit, .end = unit + 1}});
    const auto optimizer = spec_.optimizer.make(optim::FlatWeights::of(*model));
    const optim::ParameterNorms norms(spec_.optimizer, device_, std::ssize(model->parameters()));
    UnitCost cost{.seconds = std::numeric_limits<double>::infinity(),
                  .fixed_bytes = allocator.in_use().total_bytes() - before,
                  .input_bytes = value_.bytes()};
    Variable output;
    for (int pass = 0; pass < kPasses; ++pass) {
      const double seconds = run(*model, pass == 0, cost, output);
      if (pass > 0) cost.seconds = std::min(cost.seconds, seconds);
    }
    value_ = output.value();
    trains_before_ = output.requires_gradient();
    return cost;
  }

 private:
  /// Runs a forward and a backward pass, or two backward passes with `weights_apart`. Returns the seconds.
  double run(nn::Model& model, bool weights_apart, UnitCost& cost, Variable& output) {
    output = {};
    if (!device_.computes()) device_.operator_log()->clear();
    CachingAllocator& allocator = device_.allocator();
    const int64_t before = allocator.in_use().total_bytes();
    const auto begun = Clock::now();
    const auto peak = allocator.peak_during([&] {
      Tape tape(recording_of(spec_.recompute, device_));
      auto outputs = model.outputs(tape.input(value_, trains_before_), context(tape));
      cost.kept_bytes = allocator.in_use().total_bytes() - before;
      output = outputs.front();
      auto roots = roots_of(std::move(outputs));
      if (!weights_apart) return tape.backward(std::move(roots));
      tape.backward_data(std::move(roots));
      // The output is included, as in kept_bytes: the next unit's weight pass may read it.
      cost.kept_for_weights_bytes = allocator.in_use().total_bytes() - before;
      tape.backward_weights();
    });
    device_.synchronize();
    cost.most_bytes = std::max<int64_t>(0, peak.total_bytes() - before - cost.kept_bytes);
    model.forget_gradients();
    return device_.computes() ? seconds_since(begun) : logged_seconds();
  }
  /// Seconds of operators that were only logged.
  double logged_seconds() const {
    double seconds = 0;
    for (const OperatorCost& cost : device_.operator_log()->costs()) seconds += operator_s_ ? operator_s_(cost) : 1;
    return seconds;
  }
  /// Uses a copy of the output as its gradient; any values would do.
  static std::vector<Tape::Root> roots_of(std::vector<Variable> outputs) {
    std::vector<Tape::Root> roots;
    for (const Variable& made : outputs) {
      if (!made.requires_gradient()) continue;
      const Tensor& value = made.value();
      Tensor gradient =
          Tensor::empty(value.device(), value.shape(), {.dtype = value.dtype(), .layout = value.layout()});
      gradient.copy_from(value);
      roots.push_back({.output = made.without_value(), .gradient = std::move(gradient)});
    }
    return roots;
  }
  nn::ForwardContext context(Tape& tape) const {
    return {.tape = tape,
            .training = true,
            .seed = spec_.initialization.seed,
            .epoch = epoch_,
            .sample_ids = ids_,
            .text = text_};
  }

  const ReplicaSpec& spec_;
  Device& device_;
  DType dtype_;
  std::function<double(const OperatorCost&)> operator_s_;  ///< for a logged world
  Tensor value_;
  bool trains_before_ = false;  ///< a gradient goes back to the unit that made the value
  nn::TextInputs text_;
  Tensor ids_;
  Tensor epoch_;
};

}  // namespace

std::vector<std::string> unit_names_of(const StrategyContext& context) {
  const auto device = open_device(context.team.devices.front(), {.counts_only = context.team.logged.has_value()});
  const ReplicaSpec& spec = context.replica;
  return unit_names(*spec.model.build({.device = *device, .convolution = spec.convolution}, spec.input));
}

std::vector<UnitCost> profile_units(const StrategyContext& context) {
  const auto units = static_cast<int>(unit_names_of(context).size());
  RankTeam::Options options = context.team;
  options.devices.resize(1);
  options.threads.resize(1);
  options.world.reset();
  RankTeam team(options);
  std::vector<UnitCost> costs;
  team.run("measuring the model's stages", [&](int) {
    Profile profile(context, team.device(0));
    for (int unit = 0; unit < units; ++unit) costs.push_back(profile.measure(unit));
  });
  return costs;
}

}  // namespace dptrain::parallel
