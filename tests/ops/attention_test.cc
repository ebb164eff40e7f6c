// Attention against double precision: softmax over the keys that a sample has, and dropout of the probabilities.

#include "ops/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "device/cpu_amx.h"
#include "ops/reorder.h"
#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/not_a_number.h"
#include "support/test_device.h"

namespace dptrain {
namespace attention_test {

using namespace testing;

using Doubles = std::vector<double>;

struct Case {
  int64_t samples, positions, heads, width;
  std::vector<int32_t> lengths;  ///< empty: all keys
  float dropout = 0;

  Shape shape() const { return {samples, positions, heads * width}; }
  std::string text() const { return shape().text() + " of " + std::to_string(heads) + " heads"; }
};

/// Positions that fill tiles and that don't, one block of queries and several; widths of whole vectors and not, and
/// widths beyond what a GPU fuses; a sample without keys, and one with all.
const std::vector<Case> kCases = {{2, 5, 3, 4, {}},
                                  {2, 17, 2, 32, {}, 0.3f},
                                  {3, 19, 2, 7, {19, 0, 11}, 0.5f},
                                  {1, 33, 1, 64, {1}},
                                  {1, 201, 1, 20, {190}, 0.1f},
                                  {2, 163, 2, 32, {163, 130}, 0.1f},
                                  {2, 15, 1, 16, {15, 1}, 0.2f},
                                  {1, 64, 1, 33, {}, 0.2f},
                                  {1, 67, 1, 128, {66}, 0.1f},
                                  {1, 40, 1, 129, {}, 0.1f},
                                  {1, 1, 1, 1, {}}};

/// The formula of attention.h, and its gradients.
struct Reference {
  Doubles y, dquery, dkey, dvalue;

  /// `keep`: [N, H, S, S], the factors of dropout.
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

/// A device and the type of its numbers.
struct AttentionRow {
  DeviceRow device;
  DType dtype = DType::f32;
  double rounding = 0;  ///< half a unit in the last place of half precision, relative
};

std::ostream& operator<<(std::ostream& out, const AttentionRow& row) { return out << row.device; }

class Attention : public ::testing::TestWithParam<AttentionRow> {
 protected:
  Tensor as_row(const Tensor& x) const { return ops::converted(x, {.dtype = GetParam().dtype}); }
  Tensor drawn(const Shape& shape, const Formula& formula) const {
    return as_row(formula_tensor(*device_, shape, formula));
  }
  Tensor given(const Shape& shape, const std::vector<float>& values) const {
    return as_row(tensor_of(*device_, shape, values));
  }
  static std::vector<float> read(const Tensor& x) { return ops::converted(x, {.dtype = DType::f32}).values(); }

  ops::AttentionInputs inputs(const Case& c) const {
    return {.query = drawn(c.shape(), {.tensor = 0, .scale = 3}),
            .key = drawn(c.shape(), {.tensor = 1, .scale = 3}),
            .value = drawn(c.shape(), {.tensor = 2}),
            .lengths = c.lengths.empty() ? Tensor() : labels_on(*device_, c.lengths)};
  }
  /// Options for samples from number 40 on.
  ops::AttentionOptions options(const Case& c, int64_t first = 40) const {
    return {.heads = c.heads,
            .dropout = c.dropout,
            .key = {.seed = 5,
                    .layer = 3,
                    .epoch = epoch_on(*device_, 2),
                    .sample_ids = sample_ids_on(*device_, first, first + c.samples)}};
  }
  void expect_near(const Tensor& got, const Doubles& expected) const {
    const std::vector<float> values = read(got);
    ASSERT_EQ(values.size(), expected.size());
    double norm = 0, largest = 0;
    for (const double value : expected) norm += value * value, largest = std::max(largest, std::abs(value));
    // A gradient may be the difference of equal sums of 64 numbers, whose rounding errors remain. In half precision,
    // probabilities, their gradients and the result are rounded, and also the outputs, from which those gradients are
    // computed.
    const double bound = GetParam().dtype == DType::f32 ? GetParam().device.tolerance * std::sqrt(norm) + 4e-6
                                                        : 4 * GetParam().rounding * (largest + 1);
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], bound) << "element " << i;
  }
  std::unique_ptr<Device> device_ = GetParam().device.open();
};

/// In 16 bits, where attention is one operator.
class FusedAttention : public Attention {};

TEST_P(Attention, FollowsTheFormulaAndDropsAsDropoutDoes) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.text());
    const auto in = inputs(c);
    const auto choices = options(c);
    const Shape square = {c.samples, c.heads, c.positions, c.positions};
    const Tensor ones = tensor_of(*device_, square, std::vector<float>(static_cast<size_t>(square.elements()), 1.f));
    const std::vector<float> keep = values_of(ops::dropout_forward(ones, c.dropout, choices.key).y);
    const Tensor incoming = drawn(c.shape(), {.tensor = 3});
    const Reference reference(c, read(in.query), read(in.key), read(in.value), read(incoming), keep);

    const auto forward = ops::attention_forward(in, choices);
    expect_near(forward.y, reference.y);
    const auto gradients = ops::attention_backward(in, forward, incoming, choices);
    expect_near(gradients.value, reference.dvalue);
    expect_near(gradients.query, reference.dquery);
    expect_near(gradients.key, reference.dkey);
  }
}

TEST_P(Attention, DoesNotKnowTheBatch) {
  const Case whole{3, 9, 2, 8, {}, 0.4f};
  const auto in = inputs(whole);
  const std::vector<float> expected = read(ops::attention_forward(in, options(whole)).y);
  std::vector<float> parts;
  for (int64_t n = 0; n < whole.samples; ++n) {
    Case one = whole;
    one.samples = 1;
    const ops::AttentionInputs sample{
        .query = in.query.samples(n, n + 1), .key = in.key.samples(n, n + 1), .value = in.value.samples(n, n + 1)};
    const std::vector<float> y = read(ops::attention_forward(sample, options(one, 40 + n)).y);
    parts.insert(parts.end(), y.begin(), y.end());
  }
  if (device_->kind() == DeviceKind::cpu || GetParam().dtype != DType::f32) {
    EXPECT_EQ(parts, expected);
    return;
  }
  // On a GPU a library computes f32 products, and may choose another algorithm for another batch.
  expect_near(given({static_cast<int64_t>(parts.size())}, parts), Doubles(expected.begin(), expected.end()));
}

TEST_P(Attention, DroppingNextToNothingDropsNothing) {
  const Case c{1, 5, 1, 4, {}, 1e-12f};
  EXPECT_EQ(read(ops::attention_forward(inputs(c), options(c)).y),
            read(ops::attention_forward(inputs(c), {.heads = 1}).y));
}

TEST_P(Attention, LargeScoresDoNotOverflow) {
  const Tensor query = given({1, 2, 1}, {1e4f, -1e4f}), value = given({1, 2, 1}, {5, 7});
  const auto forward = ops::attention_forward({.query = query, .key = query, .value = value}, {.heads = 1});
  EXPECT_EQ(read(forward.y), (std::vector<float>{5, 7}));
}

TEST_P(Attention, ANaNOfAQueryIsOneInItsRow) {
  const Case c{1, 40, 2, 16, {}};
  for (const float nan : kNaNs) {
    SCOPED_TRACE(std::bit_cast<uint32_t>(nan));
    ops::AttentionInputs in = inputs(c);
    std::vector<float> query = read(in.query);
    const size_t row = 32, head = 16;  // the second head of position 7
    query[7 * row + head + 5] = nan;
    in.query = given(c.shape(), query);
    const std::vector<float> y = read(ops::attention_forward(in, options(c)).y);
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i / row == 7 && i % row >= head) << i;
  }
}

TEST_P(Attention, GivesTheSameBitsOnEveryRun) {
  for (const int64_t width : {int64_t{32}, int64_t{128}}) {
    const Case c{2, 70, 1, width, {70, 40}, 0.2f};
    const auto in = inputs(c);
    const Tensor incoming = drawn(c.shape(), {.tensor = 3});
    const auto run = [&] {
      const auto forward = ops::attention_forward(in, options(c));
      const auto gradients = ops::attention_backward(in, forward, incoming, options(c));
      return std::vector{read(forward.y), read(gradients.query), read(gradients.key), read(gradients.value)};
    };
    EXPECT_TRUE(run() == run());
  }
}

/// Compares dropout with a CPU worker's. A value with ones in one column shows it, with a column for each of 32 keys at
/// a time.
TEST_P(Attention, DropsWhatACpuWorkerDrops) {
  const Case c{2, 71, 2, 32, {}, 0.4f};
  const auto cpu = test_device();
  const Shape square = {c.samples, c.heads, c.positions, c.positions};
  const Tensor ones = tensor_of(*cpu, square, std::vector<float>(static_cast<size_t>(square.elements()), 1.f));
  const std::vector<float> keep = values_of(
      ops::dropout_forward(
          ones, c.dropout,
          {.seed = 5, .layer = 3, .epoch = epoch_on(*cpu, 2), .sample_ids = sample_ids_on(*cpu, 40, 40 + c.samples)})
          .y);
  const Tensor none = Tensor::zeros(*device_, c.shape(), {.dtype = GetParam().dtype});
  int64_t wrong = 0;
  for (int64_t first = 0; first < c.positions; first += c.width) {
    std::vector<float> value(static_cast<size_t>(c.shape().elements()));
    const auto at = [&](int64_t n, int64_t position, int64_t head, int64_t column) {
      return static_cast<size_t>(((n * c.positions + position) * c.heads + head) * c.width + column);
    };
    const int64_t keys = std::min(c.width, c.positions - first);
    for (int64_t row = 0; row < c.samples * c.heads * keys; ++row)
      value[at(row / (c.heads * keys), first + row % keys, row / keys % c.heads, row % keys)] = 1;
    const std::vector<float> y =
        read(ops::attention_forward({.query = none, .key = none, .value = given(c.shape(), value)}, options(c)).y);
    for (int64_t row = 0; row < c.samples * c.heads * c.positions; ++row)
      for (int64_t key = 0; key < keys; ++key) {
        const int64_t n = row / (c.heads * c.positions), head = row / c.positions % c.heads;
        const bool kept = keep[static_cast<size_t>(row * c.positions + first + key)] != 0;
        wrong += (y[at(n, row % c.positions, head, key)] != 0) != kept;
      }
  }
  EXPECT_EQ(wrong, 0);
}

/// A device that only counts memory follows the same rule.
TEST_P(Attention, KeepsTheProbabilitiesOfAGpuInF32Alone) {
  const DeviceRow& row = GetParam().device;
  const bool keeps = row.device.kind == DeviceKind::cuda && device_->kind() == row.device.kind;
  const auto counted = open_device({device_->kind(), 0}, {.counts_only = true});
  for (const int64_t width : {int64_t{16}, int64_t{129}}) {
    const Shape rows = {2, 3, 40}, square = {2, 3, 40, 40};
    const bool fused = GetParam().dtype != DType::f32 && width <= 128;
    for (Device* device : {device_.get(), counted.get()}) {
      const Tensor x = Tensor::zeros(*device, {2, 40, 3 * width}, {.dtype = GetParam().dtype});
      const auto activations = [&] { return device->allocator().in_use()[MemoryPurpose::activations]; };
      const ops::DropoutKey key{.epoch = epoch_on(*device, 0), .sample_ids = sample_ids_on(*device, 0, 2)};
      const int64_t before = activations();
      const auto forward =
          ops::attention_forward({.query = x, .key = x, .value = x}, {.heads = 3, .dropout = 0.1f, .key = key});
      EXPECT_EQ(forward.dropout_bits.defined(), device->kind() == DeviceKind::cpu);
      EXPECT_EQ(forward.kept.shape(), keeps && !fused ? square : rows);
      EXPECT_EQ(forward.kept.dtype(), keeps && !fused ? GetParam().dtype : DType::f32);
      EXPECT_EQ(activations() - before < forward.y.bytes() + square.elements() * 2, !keeps || fused);
    }
  }
}

TEST_P(FusedAttention, TakesNoMemoryForEachPairOfPositions) {
  const Tensor x = Tensor::zeros(*device_, {1, 400, 16}, {.dtype = GetParam().dtype});
  const ops::AttentionInputs in{.query = x, .key = x, .value = x};
  const int64_t before = device_->allocator().in_use().total_bytes();
  const int64_t peak = device_->allocator()
                           .peak_during([&] {
                             const auto forward = ops::attention_forward(in, options({1, 400, 2, 8, {}, 0.1f}));
                             ops::attention_backward(in, forward, x, options({1, 400, 2, 8, {}, 0.1f}));
                           })
                           .total_bytes();
  // The output and three gradients, two numbers per row, sample numbers and epochs; rounded up.
  EXPECT_LT(peak - before, 5 * x.bytes() + 2 * 2 * 400 * 4 + 2048);
}

TEST_P(Attention, OfNoSamples) {
  const Tensor none = Tensor::empty(*device_, {0, 4, 6}, {.dtype = GetParam().dtype});
  const auto forward = ops::attention_forward({.query = none, .key = none, .value = none}, {.heads = 2});
  EXPECT_EQ(forward.y.shape(), none.shape());
  const auto gradients =
      ops::attention_backward({.query = none, .key = none, .value = none}, forward, none, {.heads = 2});
  EXPECT_EQ(gradients.key.shape(), none.shape());
}

TEST_P(Attention, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros(*device_, {2, 4, 6}, {.dtype = GetParam().dtype});
  const Tensor other = Tensor::zeros(*device_, {2, 3, 6}, {.dtype = GetParam().dtype});
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

TEST(AttentionOnCpu, TakesLessWorkspaceForBf16WhereAmxMultipliesBoth) {
  if (!cpu_has_amx()) GTEST_SKIP() << "no AMX: f32 isn't multiplied in pieces of bf16 here";
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

std::vector<AttentionRow> attention_rows() {
  std::vector<AttentionRow> rows;
  for (const DeviceRow& row : device_rows()) rows.push_back({row});
  const DeviceId gpu = {DeviceKind::cuda, 0};
  rows.push_back({{"cuda_bf16", gpu, 0, {}}, DType::bf16, 0x1p-8});
  rows.push_back({{"cuda_f16", gpu, 0, {}}, DType::f16, 0x1p-11});
  return rows;
}

std::vector<AttentionRow> fused_rows() {
  std::vector<AttentionRow> rows = attention_rows();
  std::erase_if(rows, [](const AttentionRow& row) { return row.dtype == DType::f32; });
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Devices, Attention, ::testing::ValuesIn(attention_rows()),
                         [](const auto& test) { return test.param.device.name; });
INSTANTIATE_TEST_SUITE_P(Devices, FusedAttention, ::testing::ValuesIn(fused_rows()),
                         [](const auto& test) { return test.param.device.name; });

}  // namespace attention_test
}  // namespace dptrain
