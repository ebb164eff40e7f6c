// Attention against double precision: softmax over the keys that there are, and dropout of the probabilities.

#include "ops/attention.h"

#include "device/cpu_amx.h"
#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using namespace testing;

using Doubles = std::vector<double>;

struct Case {
  int64_t samples, positions, heads, width;
  std::vector<int32_t> lengths;  ///< empty: all keys
  float dropout = 0;

  Shape shape() const { return {samples, positions, heads * width}; }
  std::string text() const { return shape().text() + " of " + std::to_string(heads) + " heads"; }
};

/// Positions of whole tiles and not, one block of queries and several; widths of whole vectors and not; a sample
/// without keys, and one with all.
const std::vector<Case> kCases = {{2, 5, 3, 4, {}},    {2, 17, 2, 32, {}, 0.3f},     {3, 19, 2, 7, {19, 0, 11}, 0.5f},
                                  {1, 33, 1, 64, {1}}, {1, 201, 1, 20, {190}, 0.1f}, {1, 1, 1, 1, {}}};

/// The formula of attention.h, and its gradients.
struct Reference {
  Doubles y, dquery, dkey, dvalue;

  /// `keep`: [N, H, S, S], what dropout multiplies by.
  Reference(const Case& c, const std::vector<float>& query, const std::vector<float>& key,
            const std::vector<float>& value, const std::vector<float>& incoming, const std::vector<float>& keep)
      : y(query.size()), dquery(query.size()), dkey(query.size()), dvalue(query.size()) {
    const double scale = 1 / std::sqrt(static_cast<double>(c.width));
    for (int64_t n = 0; n < c.samples; ++n) {
      const int64_t length = c.lengths.empty() ? c.positions : c.lengths[static_cast<size_t>(n)];
      for (int64_t row = 0; row < c.heads * c.positions; ++row) {
        const int64_t head = row / c.positions, i = row % c.positions;
        const auto at = [&](int64_t position, int64_t d) {
          return static_cast<size_t>(((n * c.positions + position) * c.heads + head) * c.width + d);
        };
        const auto kept = [&](int64_t j) {
          return double{keep[static_cast<size_t>((n * c.heads * c.positions + row) * c.positions + j)]};
        };
        Doubles probabilities(static_cast<size_t>(length)), gradients(probabilities.size());
        double sum = 0, product = 0;
        for (int64_t j = 0; j < length; ++j) {
          double score = 0;
          for (int64_t d = 0; d < c.width; ++d) score += double{query[at(i, d)]} * key[at(j, d)];
          sum += probabilities[static_cast<size_t>(j)] = std::exp(scale * score);
        }
        for (int64_t j = 0; j < length; ++j) {
          const auto k = static_cast<size_t>(j);
          probabilities[k] /= sum;
          for (int64_t d = 0; d < c.width; ++d) {
            y[at(i, d)] += probabilities[k] * kept(j) * value[at(j, d)];
            dvalue[at(j, d)] += probabilities[k] * kept(j) * incoming[at(i, d)];
            gradients[k] += kept(j) * incoming[at(i, d)] * value[at(j, d)];
          }
          product += probabilities[k] * gradients[k];
        }
        for (int64_t j = 0; j < length; ++j) {
          const auto k = static_cast<size_t>(j);
          const double of_score = scale * probabilities[k] * (gradients[k] - product);
          for (int64_t d = 0; d < c.width; ++d) {
            dquery[at(i, d)] += of_score * key[at(j, d)];
            dkey[at(j, d)] += of_score * query[at(i, d)];
          }
        }
      }
    }
  }
};

class Attention : public ::testing::TestWithParam<DeviceRow> {
 protected:
  ops::AttentionInputs inputs(const Case& c) const {
    return {.query = formula_tensor(*device_, c.shape(), {.tensor = 0, .scale = 3}),
            .key = formula_tensor(*device_, c.shape(), {.tensor = 1, .scale = 3}),
            .value = formula_tensor(*device_, c.shape(), {.tensor = 2}),
            .lengths = c.lengths.empty() ? Tensor() : labels_on(*device_, c.lengths)};
  }
  /// Of samples from number 40 on.
  ops::AttentionOptions options(const Case& c, int64_t first = 40) const {
    return {.heads = c.heads,
            .dropout = c.dropout,
            .key = {.seed = 5,
                    .layer = 3,
                    .epoch = epoch_on(*device_, 2),
                    .sample_ids = sample_ids_on(*device_, first, first + c.samples)}};
  }
  void expect_near(const Tensor& got, const Doubles& expected) const {
    const std::vector<float> values = values_of(got);
    ASSERT_EQ(values.size(), expected.size());
    double norm = 0;
    for (const double value : expected) norm += value * value;
    for (size_t i = 0; i < values.size(); ++i)
      // A gradient may be a difference of equal sums of 64 numbers: the rounding of those remains.
      ASSERT_NEAR(values[i], expected[i], GetParam().tolerance * std::sqrt(norm) + 4e-6) << "element " << i;
  }
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(Attention, FollowsTheFormulaAndDropsAsDropoutDoes) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.text());
    const auto in = inputs(c);
    const auto choices = options(c);
    const Shape square = {c.samples, c.heads, c.positions, c.positions};
    const Tensor ones = tensor_of(*device_, square, std::vector<float>(static_cast<size_t>(square.elements()), 1.f));
    const std::vector<float> keep = values_of(ops::dropout_forward(ones, c.dropout, choices.key).y);
    const std::vector<float> incoming = Formula{.tensor = 3}.values(c.shape().elements());
    const Reference reference(c, values_of(in.query), values_of(in.key), values_of(in.value), incoming, keep);

    const auto forward = ops::attention_forward(in, choices);
    expect_near(forward.y, reference.y);
    const auto gradients = ops::attention_backward(in, forward, tensor_of(*device_, c.shape(), incoming), choices);
    expect_near(gradients.value, reference.dvalue);
    expect_near(gradients.query, reference.dquery);
    expect_near(gradients.key, reference.dkey);
  }
}

TEST_P(Attention, DoesNotKnowTheBatch) {
  const Case whole{3, 9, 2, 8, {}, 0.4f};
  const auto in = inputs(whole);
  const std::vector<float> expected = values_of(ops::attention_forward(in, options(whole)).y);
  std::vector<float> parts;
  for (int64_t n = 0; n < whole.samples; ++n) {
    Case one = whole;
    one.samples = 1;
    const ops::AttentionInputs sample{
        .query = in.query.samples(n, n + 1), .key = in.key.samples(n, n + 1), .value = in.value.samples(n, n + 1)};
    const std::vector<float> y = values_of(ops::attention_forward(sample, options(one, 40 + n)).y);
    parts.insert(parts.end(), y.begin(), y.end());
  }
  EXPECT_EQ(parts, expected);
}

TEST_P(Attention, DroppingNextToNothingDropsNothing) {
  const Case c{1, 5, 1, 4, {}, 1e-12f};
  EXPECT_EQ(values_of(ops::attention_forward(inputs(c), options(c)).y),
            values_of(ops::attention_forward(inputs(c), {.heads = 1}).y));
}

TEST_P(Attention, LargeScoresDoNotOverflow) {
  const Tensor query = tensor_of(*device_, {1, 2, 1}, {1e4f, -1e4f}), value = tensor_of(*device_, {1, 2, 1}, {5, 7});
  const auto forward = ops::attention_forward({.query = query, .key = query, .value = value}, {.heads = 1});
  EXPECT_EQ(values_of(forward.y), (std::vector<float>{5, 7}));
}

TEST_P(Attention, OfNoSamples) {
  const Tensor none = Tensor::empty(*device_, {0, 4, 6});
  const auto forward = ops::attention_forward({.query = none, .key = none, .value = none}, {.heads = 2});
  EXPECT_EQ(forward.y.shape(), none.shape());
  const auto gradients =
      ops::attention_backward({.query = none, .key = none, .value = none}, forward, none, {.heads = 2});
  EXPECT_EQ(gradients.key.shape(), none.shape());
}

TEST_P(Attention, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros(*device_, {2, 4, 6}), other = Tensor::zeros(*device_, {2, 3, 6});
  expect_error(ExitCode::bug, {"attention", "[2, 4, 6]", "4 heads"},
               [&] { ops::attention_forward({.query = x, .key = x, .value = x}, {.heads = 4}); });
  expect_error(ExitCode::bug, {"attention", "keys", "[2, 3, 6]", "[2, 4, 6]"},
               [&] { ops::attention_forward({.query = x, .key = other, .value = x}, {.heads = 2}); });
  expect_error(ExitCode::bug, {"attention", "lengths", "[3]", "[2]"}, [&] {
    ops::attention_forward({.query = x, .key = x, .value = x, .lengths = labels_on(*device_, {1, 1, 1})}, {.heads = 2});
  });
  expect_error(ExitCode::bug, {"attention", "without its epoch and sample ids"},
               [&] { ops::attention_forward({.query = x, .key = x, .value = x}, {.heads = 2, .dropout = 0.5f}); });
}

TEST(AttentionOnCpu, NamesALengthPastThePositions) {
  const auto device = test_device();
  const Tensor x = Tensor::zeros(*device, {1, 4, 6});
  expect_error(ExitCode::bug, {"attention", "5 keys of 4"}, [&] {
    ops::attention_forward({.query = x, .key = x, .value = x, .lengths = labels_on(*device, {5})}, {.heads = 2});
  });
}

TEST(AttentionOnCpu, TakesLessWorkspaceForBf16WhereAmxMultipliesIt) {
  if (!cpu_has_amx()) GTEST_SKIP() << "no AMX: bf16 is widened here";
  const auto device = test_device();
  const auto workspace = [&](DType dtype) {
    const Tensor x = Tensor::zeros(*device, {1, 300, 128}, {.dtype = dtype});
    return device->allocator().peak_during([&] {
      const ops::AttentionInputs in{.query = x, .key = x, .value = x};
      ops::attention_backward(in, ops::attention_forward(in, {.heads = 2}), x, {.heads = 2});
    })[MemoryPurpose::workspace];
  };
  EXPECT_LT(workspace(DType::bf16), workspace(DType::f32));
}

INSTANTIATE_TEST_SUITE_P(Devices, Attention, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace
}  // namespace dptrain
