// A batch whose parts are on several devices is normalized as a whole: from each part's sums, added up.

#include "ops/batch_norm_parts.h"

#include <cmath>

#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace batch_norm_parts_test {

using namespace testing;

constexpr int64_t kChannels = 20;

Shape images_of(int64_t samples) { return {samples, kChannels, 3, 2}; }

/// The parts of several devices' work, computed here one after the other on one device.
class Parts {
 public:
  struct Case {
    std::vector<int64_t> samples;  ///< for each part
    double centre = 0;             ///< of x
    bool relu = false;
    bool residual = false;
    Layout layout = Layout::plain;
    DType dtype = DType::f32;
  };

  Parts(Device& device, const Case& c) : device_(device), case_(c), options_{.relu = c.relu} {
    int64_t begin = 0;
    for (const int64_t samples : c.samples) {
      parts_.push_back(inputs(begin, samples));
      begins_.push_back(begin);
      begin += samples;
    }
    whole_ = inputs(0, begin);
  }

  /// Every part's forward pass.
  void forward() {
    std::vector<ops::BatchNormPart> known;
    for (const auto& in : parts_) known.push_back(ops::batch_norm_part(in.x));
    std::vector<Tensor> sums, squares;
    for (const auto& part : known) sums.push_back(part.sums);
    add_up(sums);
    for (size_t p = 0; p < parts_.size(); ++p) squares.push_back(ops::batch_norm_part_squares(parts_[p].x, known[p]));
    add_up(squares);
    means_ = sums.front();
    for (const auto& in : parts_)
      passes_.push_back(ops::batch_norm_by_sums(in, {.means = means_, .squares = squares.front()}, options_));
  }

  struct Gradients : ops::BatchNormGradients {
    Tensor gamma, beta;
  };

  /// Every part's backward pass; the gradients of gamma and beta are those of all parts together.
  std::vector<Gradients> backward() {
    std::vector<Tensor> sums, gammas, betas;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const auto sinks = ops::BatchNormSinks::of(parts_[p]);
      sums.push_back(ops::batch_norm_gradient_sums(parts_[p], passes_[p], output_gradient(p), sinks, options_));
      gammas.push_back(sinks.gamma), betas.push_back(sinks.beta);
    }
    for (auto* tensors : {&sums, &gammas, &betas}) add_up(*tensors);
    std::vector<Gradients> gradients;
    for (size_t p = 0; p < parts_.size(); ++p)
      gradients.push_back({ops::batch_norm_backward_by_sums(
                               parts_[p], passes_[p],
                               {.output_gradient = output_gradient(p), .means = means_, .sums = sums[p]}, options_),
                           gammas[p], betas[p]});
    return gradients;
  }

  Tensor gradient_of_whole() const { return values(begins_.back() + case_.samples.back(), {.tensor = 9}); }
  const ops::BatchNormInputs& whole() const { return whole_; }
  const ops::BatchNormOptions& options() const { return options_; }
  const ops::BatchNormInputs& part(size_t p) const { return parts_[p]; }
  const ops::BatchNormTraining& pass(size_t p) const { return passes_[p]; }
  size_t size() const { return parts_.size(); }

  /// The values of a part's samples, taken from the whole batch.
  std::vector<float> of_part(const std::vector<float>& whole, size_t p) const {
    const int64_t sample = images_of(1).elements();
    const auto from = whole.begin() + begins_[p] * sample;
    return {from, from + case_.samples[p] * sample};
  }

 private:
  Tensor values(int64_t samples, const Formula& formula, int64_t begin = 0) const {
    const auto all = formula.values(images_of(begin + samples).elements());
    const std::vector<float> own(all.begin() + images_of(begin).elements(), all.end());
    return ops::converted(Tensor::from(device_, images_of(samples), own),
                          {.dtype = case_.dtype, .layout = case_.layout});
  }
  ops::BatchNormInputs inputs(int64_t begin, int64_t samples) const {
    return {.x = values(samples, {.tensor = 1, .centre = case_.centre}, begin),
            .gamma = formula_tensor(device_, {kChannels}, {.tensor = 2, .centre = 1.5}),
            .beta = formula_tensor(device_, {kChannels}, {.tensor = 3}),
            .running_mean = formula_tensor(device_, {kChannels}, {.tensor = 4}),
            .running_variance = formula_tensor(device_, {kChannels}, {.tensor = 5, .centre = 2}),
            .residual = case_.residual ? values(samples, {.tensor = 6}, begin) : Tensor()};
  }
  Tensor output_gradient(size_t p) const { return values(case_.samples[p], {.tensor = 9}, begins_[p]); }

  static void add_up(std::vector<Tensor>& tensors) {
    std::vector<float> sum(static_cast<size_t>(tensors.front().elements()));
    for (const Tensor& tensor : tensors) {
      const auto values = tensor.values();
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    for (const Tensor& tensor : tensors)
      tensor.device().upload(tensor.raw(), sum.data(), static_cast<int64_t>(sum.size() * sizeof(float)));
  }

  Device& device_;
  Case case_;
  ops::BatchNormOptions options_;
  std::vector<ops::BatchNormInputs> parts_;
  std::vector<int64_t> begins_;
  ops::BatchNormInputs whole_;
  std::vector<ops::BatchNormTraining> passes_;
  Tensor means_;
};

/// Expects differences within `bound` times the largest magnitude.
void expect_near(const std::vector<float>& got, const std::vector<float>& right, double bound, const char* what) {
  ASSERT_EQ(got.size(), right.size()) << what;
  double largest = 0, apart = 0;
  for (const float value : right) largest = std::max(largest, std::abs(double{value}));
  for (size_t i = 0; i < got.size(); ++i) apart = std::max(apart, std::abs(double{got[i]} - double{right[i]}));
  EXPECT_LE(apart, bound * largest) << what;
}

std::vector<float> f32_of(const Tensor& tensor) {
  return ops::converted(tensor, {.dtype = DType::f32, .layout = Layout::plain}).values();
}

void expect_as_whole(Parts& parts, double bound) {
  parts.forward();
  const ops::BatchNormTraining whole = ops::batch_norm_training(parts.whole(), parts.options());
  const auto gradients = parts.backward();
  const auto sinks = ops::BatchNormSinks::of(parts.whole());
  const auto of_whole =
      ops::batch_norm_backward(parts.whole(), whole, parts.gradient_of_whole(), sinks, parts.options());
  for (size_t p = 0; p < parts.size(); ++p) {
    SCOPED_TRACE(::testing::Message() << "part " << p);
    expect_near(f32_of(parts.pass(p).y), parts.of_part(f32_of(whole.y), p), bound, "y");
    expect_near(values_of(parts.pass(p).mean), values_of(whole.mean), bound, "mean");
    expect_near(values_of(parts.part(p).running_mean), values_of(parts.whole().running_mean), bound, "running mean");
    expect_near(values_of(parts.part(p).running_variance), values_of(parts.whole().running_variance), bound,
                "running variance");
    expect_near(f32_of(gradients[p].x), parts.of_part(f32_of(of_whole.x), p), bound, "dx");
    expect_near(values_of(gradients[p].gamma), values_of(sinks.gamma), bound, "dgamma");
    expect_near(values_of(gradients[p].beta), values_of(sinks.beta), bound, "dbeta");
    EXPECT_EQ(gradients[p].residual.defined(), of_whole.residual.defined());
    if (of_whole.residual.defined())
      expect_near(f32_of(gradients[p].residual), parts.of_part(f32_of(of_whole.residual), p), bound, "dresidual");
    EXPECT_EQ(parts.pass(p).y.layout(), parts.whole().x.layout());
  }
}

class BatchNormParts : public ::testing::TestWithParam<DeviceRow> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().open();
};

// A few rounding errors of f32, 6e-8 each, of the sums and of values computed from them.
constexpr double kRounding = 1e-6;

TEST_P(BatchNormParts, AreNormalizedAsTheWholeBatch) {
  for (const Layout layout : GetParam().image_layouts)
    for (const bool residual : {false, true})
      for (const std::vector<int64_t>& samples :
           {std::vector<int64_t>{7}, {4, 3}, {1, 0, 6}, {2, 2, 2, 1}, {0, 0, 1, 0}}) {
        SCOPED_TRACE(::testing::Message()
                     << layout_name(layout) << ", " << samples.size() << " parts" << (residual ? ", residual" : ""));
        Parts parts(*device_, {.samples = samples, .relu = true, .residual = residual, .layout = layout});
        expect_as_whole(parts, kRounding);
        for (size_t p = 0; p < parts.size(); ++p) expect_zero_padding(parts.pass(p).y);
      }
}

TEST_P(BatchNormParts, OfOneDeviceKnowTheSameStatistics) {
  Parts parts(*device_, {.samples = {8}});
  parts.forward();
  const ops::BatchNormTraining whole = ops::batch_norm_training(parts.whole(), {});
  EXPECT_EQ(values_of(parts.pass(0).mean), values_of(whole.mean)) << "eight times a number is exact";
  EXPECT_EQ(values_of(parts.part(0).running_mean), values_of(parts.whole().running_mean));
}

TEST_P(BatchNormParts, LoseNothingToALargeMean) {
  // With deviations of about 0.6 around 1000, E[x^2] - E[x]^2 in f32 would be wrong by a tenth of the variance. f32
  // holds the means to 6e-5, which makes y wrong by about 1e-4 of a deviation, on one device as well; squares about the
  // means are wrong by less.
  Parts parts(*device_, {.samples = {3, 5, 4}, .centre = 1000});
  parts.forward();
  const ops::BatchNormTraining whole = ops::batch_norm_training(parts.whole(), {});
  for (size_t p = 0; p < parts.size(); ++p) {
    expect_near(values_of(parts.pass(p).inverse_deviation), values_of(whole.inverse_deviation), 1e-4, "deviation");
    expect_near(f32_of(parts.pass(p).y), parts.of_part(f32_of(whole.y), p), 3e-4, "y");
  }
}

TEST_P(BatchNormParts, OnceMoreGivesTheSameBits) {
  for (const Layout layout : GetParam().image_layouts) {
    Parts parts(*device_, {.samples = {3, 0, 2}, .relu = true, .layout = layout});
    parts.forward();
    for (size_t p = 0; p < parts.size(); ++p)
      EXPECT_EQ(values_of(ops::batch_norm_again(parts.part(p), parts.pass(p), parts.options())),
                values_of(parts.pass(p).y));
  }
}

TEST_P(BatchNormParts, WithoutAnySampleNothingIsLearned) {
  Parts parts(*device_, {.samples = {0, 0}, .relu = true, .residual = true});
  parts.forward();
  const auto gradients = parts.backward();
  for (size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(values_of(parts.part(p).running_mean), values_of(parts.whole().running_mean));
    EXPECT_EQ(values_of(parts.part(p).running_variance), values_of(parts.whole().running_variance));
    EXPECT_EQ(parts.pass(p).y.shape(), images_of(0));
    EXPECT_EQ(gradients[p].x.shape(), images_of(0));
    EXPECT_EQ(gradients[p].residual.shape(), images_of(0));
    EXPECT_EQ(values_of(gradients[p].gamma), std::vector<float>(kChannels, 0.f));
  }
}

TEST_P(BatchNormParts, OfHalfPrecisionHaveStatisticsInF32) {
  // Values that both sides round to bf16 may differ by one unit in the last place, 2^-8.
  Parts parts(*device_, {.samples = {4, 0, 3},
                         .relu = true,
                         .residual = true,
                         .layout = GetParam().image_layouts.back(),
                         .dtype = DType::bf16});
  expect_as_whole(parts, 0x1p-8);
  const ops::BatchNormTraining whole = ops::batch_norm_training(parts.whole(), parts.options());
  expect_near(values_of(parts.pass(0).inverse_deviation), values_of(whole.inverse_deviation), kRounding, "deviation");
}

TEST_P(BatchNormParts, EndInTheSameBitsForAnyThreads) {
  const auto bits = [&](int threads) {
    const auto device = GetParam().open(threads);
    Parts parts(*device, {.samples = {40, 3}, .relu = true, .residual = true});
    parts.forward();
    std::vector<std::vector<float>> values;
    for (const auto& gradients : parts.backward()) values.push_back(values_of(gradients.x));
    for (size_t p = 0; p < parts.size(); ++p) values.push_back(values_of(parts.pass(p).y));
    return values;
  };
  EXPECT_EQ(bits(1), bits(3));
}

INSTANTIATE_TEST_SUITE_P(Devices, BatchNormParts, ::testing::ValuesIn(device_rows()), RowName());

TEST(BatchNormPartsRefuse, WhatDoesNotFit) {
  const auto device = test_device();
  const auto zeros = [&](const Shape& shape) { return Tensor::zeros(*device, shape); };
  const ops::BatchNormInputs in{.x = zeros(images_of(2)),
                                .gamma = zeros({kChannels}),
                                .beta = zeros({kChannels}),
                                .running_mean = zeros({kChannels}),
                                .running_variance = zeros({kChannels}),
                                .residual = {}};
  expect_error(ExitCode::bug, {"batch_norm part", "[20]"}, [&] { ops::batch_norm_part(in.gamma); });
  ops::BatchNormPart part = ops::batch_norm_part(in.x);
  part.sums = zeros({kChannels});
  expect_error(ExitCode::bug, {"batch_norm squares", "sums", "[20]", "[21]"},
               [&] { ops::batch_norm_part_squares(in.x, part); });
  expect_error(ExitCode::bug, {"batch_norm by sums", "means", "[20]", "[21]"},
               [&] { ops::batch_norm_by_sums(in, {.means = zeros({kChannels}), .squares = zeros({kChannels})}, {}); });
  const auto forward =
      ops::batch_norm_by_sums(in, {.means = zeros({kChannels + 1}), .squares = zeros({kChannels})}, {});
  expect_error(ExitCode::bug, {"batch_norm gradient sums", "output gradient"}, [&] {
    ops::batch_norm_gradient_sums(in, forward, zeros(images_of(1)), ops::BatchNormSinks::of(in), {});
  });
  expect_error(ExitCode::bug, {"batch_norm backward by sums", "sums", "[20]", "[40]"}, [&] {
    ops::batch_norm_backward_by_sums(
        in, forward,
        {.output_gradient = zeros(images_of(2)), .means = zeros({kChannels + 1}), .sums = zeros({kChannels})}, {});
  });
}

}  // namespace batch_norm_parts_test
}  // namespace dptrain
