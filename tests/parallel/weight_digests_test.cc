// Finds the rank whose weights differ from the others'.
#include "parallel/weight_digests.h"

#include <gtest/gtest.h>

namespace dptrain::parallel {
namespace weight_digests_test {

using Tensors = std::vector<WeightDigests::Tensor>;

WeightDigests of(const Tensors& tensors, DeviceKind kind = DeviceKind::cpu) {
  return {.kind = kind, .tensors = tensors};
}

void expect_difference(const std::vector<WeightDigests>& by_rank, const char* tensor, int rank, int other) {
  const auto found = find_weight_difference(by_rank);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tensor, tensor);
  EXPECT_EQ(found->rank, rank);
  EXPECT_EQ(found->other, other);
}

TEST(WeightDifferences, NameTheFirstTensorAndTheRankThatIsAlone) {
  const WeightDigests usual = of({{"a", 1}, {"b", 2}, {"c", 3}}), odd = of({{"a", 1}, {"b", 7}, {"c", 8}});
  expect_difference({usual, odd}, "b", 1, 0);
  expect_difference({usual, usual, odd}, "b", 2, 0);
  expect_difference({odd, usual, usual}, "b", 0, 1);
  EXPECT_FALSE(find_weight_difference({usual, usual, usual}));
}

TEST(WeightDifferences, AreThoseOfEqualNamesOnOneKindOfDevice) {
  // Two replicas of two stages that share a weight.
  const WeightDigests first = of({{"a", 1}, {"tied", 5}}), second = of({{"b", 2}, {"tied", 5}});
  EXPECT_FALSE(find_weight_difference({first, second, first, second}));
  expect_difference({first, second, first, of({{"b", 3}, {"tied", 5}})}, "b", 3, 1);
  expect_difference({first, of({{"b", 2}, {"tied", 6}}), first, second}, "tied", 1, 0);
  // Neither a rank without weights nor a GPU beside CPU workers counts as a difference.
  EXPECT_FALSE(find_weight_difference({first, of({}), first}));
  EXPECT_FALSE(find_weight_difference({first, of({{"a", 9}, {"tied", 9}}, DeviceKind::cuda), first}));
  EXPECT_FALSE(find_weight_difference({}));
}

TEST(WeightDigests, PartsOfShardedWeightsAreComparedWithTheSamePart) {
  const WeightDigests first{.part = 0, .tensors = {{"a", 1}, {"b", 2}}}, second{.part = 1, .tensors = {{"b", 3}}};
  EXPECT_FALSE(find_weight_difference({first, second, first, second}));
  const WeightDigests odd{.part = 1, .tensors = {{"b", 4}}};
  expect_difference({first, second, first, odd}, "b", 3, 1);
}

}  // namespace weight_digests_test
}  // namespace dptrain::parallel
