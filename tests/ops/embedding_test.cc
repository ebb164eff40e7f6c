// Rows of a table by number, and the sums of their gradients.

#include "ops/embedding.h"

#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace embedding_test {

using namespace testing;

struct Case {
  Shape ids;
  int64_t rows, width;
};

/// Tables of one row and of two, whose sums are long; of more rows than positions; widths of whole packs and not.
const std::vector<Case> kCases = {{{7, 50}, 2, 24},   {{70}, 1, 5},   {{4, 33}, 33, 130},
                                  {{3, 8}, 1000, 16}, {{2, 2}, 5, 7}, {{1}, 3, 1}};

class Embedding : public ::testing::TestWithParam<DeviceRow> {
 protected:
  Tensor ids_on(const Shape& shape, const std::vector<int32_t>& ids) const {
    const Tensor tensor = Tensor::empty(*device_, shape, {.dtype = DType::i32});
    device_->upload(tensor.raw(), ids.data(), tensor.bytes());
    return tensor;
  }
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(Embedding, GivesTheRowOfEveryId) {
  for (const Case& c : kCases) {
    const auto ids = formula_labels(1, c.ids.elements(), static_cast<uint64_t>(c.rows));
    const std::vector<float> table = Formula{}.values(c.rows * c.width);
    const Tensor y = ops::embedding_forward(tensor_of(*device_, {c.rows, c.width}, table), ids_on(c.ids, ids));
    EXPECT_EQ(y.shape().rank(), c.ids.rank() + 1);
    EXPECT_EQ(y.shape()[-1], c.width);
    std::vector<float> expected;
    for (const int32_t id : ids)
      expected.insert(expected.end(), table.begin() + id * c.width, table.begin() + (id + 1) * c.width);
    EXPECT_EQ(values_of(y), expected);
  }
}

TEST_P(Embedding, BackwardAddsUpTheRowsOfEachId) {
  for (const Case& c : kCases) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(c.ids.text() + " of " + std::to_string(c.rows) + (accumulate ? ", added" : ""));
      const auto ids = formula_labels(2, c.ids.elements(), static_cast<uint64_t>(c.rows));
      const std::vector<float> incoming = Formula{.tensor = 1}.values(c.ids.elements() * c.width);
      const std::vector<float> before = Formula{.tensor = 2}.values(c.rows * c.width);
      std::vector<double> expected(before.size());
      if (accumulate) expected.assign(before.begin(), before.end());
      for (size_t i = 0; i < incoming.size(); ++i)
        expected[static_cast<size_t>(ids[i / static_cast<size_t>(c.width)] * c.width) +
                 i % static_cast<size_t>(c.width)] += incoming[i];
      std::vector<int64_t> shape(c.ids.dimensions().begin(), c.ids.dimensions().end());
      shape.push_back(c.width);
      const Tensor gradient = tensor_of(*device_, {c.rows, c.width}, before);
      ops::embedding_backward(ids_on(c.ids, ids), tensor_of(*device_, Shape(shape), incoming), gradient,
                              {.accumulate = accumulate});
      const std::vector<float> got = values_of(gradient);
      // Sums of up to 350 numbers below one: an error of a unit in their last place for each chunk of 32.
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << "element " << i;
    }
  }
}

/// As many positions as a batch of text has. Most have a few ids, and some have ids with every digit that a sort uses.
/// The numbers are whole, so that sums don't round and show which rows they are of.
TEST_P(Embedding, BackwardAddsUpManyPositions) {
  constexpr int64_t kWidth = 3;
  struct Many {
    int64_t positions, rows;
  };
  for (const Many& c : {Many{2047, 1}, Many{20'011, 2}, Many{25'600, 300}, Many{40'961, 30'522}, Many{6000, 70'000}}) {
    SCOPED_TRACE(std::to_string(c.positions) + " of " + std::to_string(c.rows));
    std::vector<int32_t> ids = formula_labels(3, c.positions, static_cast<uint64_t>(c.rows));
    for (size_t i = 0; i < ids.size(); ++i)
      if (i % 4 != 0) ids[i] = static_cast<int32_t>(i % 7 * 131 % static_cast<uint64_t>(c.rows));
    ids.back() = static_cast<int32_t>(c.rows - 1);
    std::vector<float> incoming(static_cast<size_t>(c.positions * kWidth));
    for (size_t i = 0; i < incoming.size(); ++i) incoming[i] = static_cast<float>(i * 7919 % 211) - 100;
    std::vector<float> expected(static_cast<size_t>(c.rows * kWidth));
    for (size_t i = 0; i < incoming.size(); ++i)
      expected[static_cast<size_t>(ids[i / kWidth]) * kWidth + i % kWidth] += incoming[i];
    const Tensor gradient = tensor_of(*device_, {c.rows, kWidth}, expected);
    ops::embedding_backward(ids_on({c.positions}, ids), tensor_of(*device_, {c.positions, kWidth}, incoming), gradient,
                            {});
    EXPECT_TRUE(values_of(gradient) == expected);
  }
}

TEST_P(Embedding, OfNoPositionsHasNoGradient) {
  const Tensor table = tensor_of(*device_, {2, 2}, {1, 2, 3, 4}), ids = ids_on({0, 5}, {});
  const Tensor y = ops::embedding_forward(table, ids);
  EXPECT_EQ(y.shape(), (Shape{0, 5, 2}));
  ops::embedding_backward(ids, y, table, {.accumulate = true});
  EXPECT_EQ(values_of(table), (std::vector<float>{1, 2, 3, 4}));
  ops::embedding_backward(ids, y, table, {});
  EXPECT_EQ(values_of(table), (std::vector<float>{0, 0, 0, 0}));
}

TEST_P(Embedding, LeavesTheUntrainedRowAsItIs) {
  const Tensor ids = ids_on({5}, {1, 0, 1, 2, 1});
  const Tensor incoming = tensor_of(*device_, {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const Tensor table = tensor_of(*device_, {3, 2}, {10, 20, 30, 40, 50, 60});
  ops::embedding_backward(ids, incoming, table, {.accumulate = true, .untrained = 1});
  EXPECT_EQ(values_of(table), (std::vector<float>{13, 24, 30, 40, 57, 68}));
  ops::embedding_backward(ids, incoming, table, {.untrained = 1});
  EXPECT_EQ(values_of(table), (std::vector<float>{3, 4, 0, 0, 7, 8}));
}

TEST_P(Embedding, RefusesWhatDoesNotFit) {
  const Tensor table = Tensor::zeros(*device_, {3, 4}), ids = ids_on({2}, {0, 2});
  expect_error(ExitCode::bug, {"embedding", "f32 [3, 4]", "f32 [2, 4]"}, [&] {
    ops::embedding_forward(table, Tensor::zeros(*device_, {2, 4}));
  });
  expect_error(ExitCode::bug, {"embedding backward", "[3, 4]", "[2, 4]"}, [&] {
    ops::embedding_backward(ids, Tensor::zeros(*device_, {3, 4}), table, {});
  });
}

TEST(EmbeddingOnCpu, NamesAnIdPastTheTable) {
  const auto device = test_device();
  const Tensor table = Tensor::zeros(*device, {3, 4});
  expect_error(ExitCode::bug, {"id 3", "3 rows"}, [&] { ops::embedding_forward(table, labels_on(*device, {0, 3})); });
  expect_error(ExitCode::bug, {"id -1"}, [&] {
    ops::embedding_backward(labels_on(*device, {-1}), Tensor::zeros(*device, {1, 4}), table, {});
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, Embedding, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace embedding_test
}  // namespace dptrain
