// The order of sums, with values for which another order gives other bits.
#include <cstring>
#include <random>

#include "comm/communicator_fixture.h"
#include "comm/tree_sum.h"
#include "tensor/half_precision.h"

namespace dptrain {
namespace {

/// An independent implementation of the definition: first each half, then their sum. The left half has the largest
/// power of two below the number of addends.
template <class T>
T tree_of(const std::vector<T>& addends) {
  if (addends.size() == 1) return addends[0];
  size_t left = 1;
  while (left * 2 < addends.size()) left *= 2;
  return tree_of(std::vector<T>(addends.begin(), addends.begin() + left)) +
         tree_of(std::vector<T>(addends.begin() + left, addends.end()));
}

/// Numbers of very different magnitudes, so that nearly every sum rounds.
template <class T>
std::vector<std::vector<T>> rough_values(int ranks, int64_t count) {
  std::mt19937 random(17);
  std::vector<std::vector<T>> values(ranks, std::vector<T>(count));
  for (auto& row : values) {
    for (T& value : row)
      value = std::ldexp(static_cast<T>(random()) - T{2147483648}, static_cast<int>(random() % 40) - 20);
  }
  return values;
}

template <class T>
std::vector<T> trees_of(const std::vector<std::vector<T>>& values) {
  std::vector<T> result(values[0].size());
  for (size_t i = 0; i < result.size(); ++i) {
    std::vector<T> addends;
    for (const auto& row : values) addends.push_back(row[i]);
    result[i] = tree_of(addends);
  }
  return result;
}

template <class T>
bool same_bits(const T* a, const T* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(T)) == 0;
}

template <class T>
void expect_tree_of_inputs(int inputs, int64_t count) {
  auto values = rough_values<T>(inputs, count);
  std::vector<T> result(count);
  TreeSum sum{.inputs = {}, .outputs = {result.data()}, .elements = count, .dtype = dtype_of<T>()};
  for (auto& row : values) sum.inputs.push_back(row.data());
  // Parts of odd sizes, out of order: the bits must not depend on how the elements are divided.
  sum.run(count / 4, count);
  sum.run(0, 1);
  sum.run(1, count / 4);
  EXPECT_TRUE(same_bits(result.data(), trees_of(values).data(), count)) << inputs;
}

TEST(TreeSumTest, IsTheTreeForAnyNumberOfInputs) {
  for (int inputs = 1; inputs <= 40; ++inputs) {
    // More than one block of 4 KiB, and no multiple of it.
    expect_tree_of_inputs<float>(inputs, 3000);
    expect_tree_of_inputs<double>(inputs, 3000);
  }
  expect_tree_of_inputs<float>(kMostRanks - 1, 50);
  expect_tree_of_inputs<double>(kMostRanks, 50);
}

/// 16-bit numbers of very different magnitudes; their sums are made in f32 and rounded once.
template <class Half>
std::vector<std::vector<Half>> rough_halves(int ranks, int64_t count) {
  std::vector<std::vector<Half>> halves;
  for (const auto& row : rough_values<float>(ranks, count)) {
    halves.emplace_back();
    for (const float value : row) halves.back().push_back(rounded_to<Half>(std::ldexp(value, -36)));
  }
  return halves;
}

template <class Half>
std::vector<Half> rounded_trees_of(const std::vector<std::vector<Half>>& halves) {
  std::vector<std::vector<float>> wide;
  for (const auto& row : halves) {
    wide.emplace_back();
    for (const Half value : row) wide.back().push_back(widened(value));
  }
  std::vector<Half> result;
  for (const float sum : trees_of(wide)) result.push_back(rounded_to<Half>(sum));
  return result;
}

template <class Half>
void expect_rounded_tree_of_inputs(int inputs, int64_t count) {
  auto halves = rough_halves<Half>(inputs, count);
  std::vector<Half> result(count);
  TreeSum sum{.inputs = {}, .outputs = {result.data()}, .elements = count, .dtype = dtype_of<Half>()};
  for (auto& row : halves) sum.inputs.push_back(row.data());
  sum.run(count / 4, count);
  sum.run(0, count / 4);
  EXPECT_TRUE(same_bits(result.data(), rounded_trees_of(halves).data(), count)) << inputs;
}

TEST(TreeSumTest, OfSixteenBitsIsRoundedOnce) {
  for (int inputs = 1; inputs <= 20; ++inputs) {
    expect_rounded_tree_of_inputs<Bfloat16>(inputs, 3000);
    expect_rounded_tree_of_inputs<Float16>(inputs, 3000);
  }
  expect_rounded_tree_of_inputs<Bfloat16>(kMostRanks, 50);
  expect_rounded_tree_of_inputs<Float16>(kMostRanks - 1, 50);
}

/// The sum that a stack makes of one input after the other, as GPUs add up.
float sum_on_stack(const std::vector<float>& inputs, const std::vector<int>& widths) {
  const std::vector<int> additions = additions_after(widths);
  std::vector<float> stack;
  for (size_t k = 0; k < inputs.size(); ++k) {
    stack.push_back(inputs[k]);
    EXPECT_LE(stack.size(), static_cast<size_t>(kMostOnStack) + 1) << "the latest is held elsewhere";
    for (int n = 0; n < additions[k]; ++n) {
      const float right = stack.back();
      stack.pop_back();
      stack.back() += right;
    }
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack.front();
}

TEST(TreeSumTest, AStackAddsUpInTheSameOrder) {
  for (const int ranks : {1, 2, 3, 7, 8, 40, kMostRanks - 1, kMostRanks}) {
    std::vector<float> addends;
    for (const auto& row : rough_values<float>(ranks, 1)) addends.push_back(row[0]);
    EXPECT_EQ(sum_on_stack(addends, std::vector<int>(addends.size(), 1)), tree_of(addends)) << ranks;
    // The inputs may also be subtrees that have been added up before.
    for (const int most : {2, 3, 5, 64}) {
      std::vector<float> sums;
      std::vector<int> widths;
      for (const InputRun& run : subtrees_of(std::vector<int>(addends.size(), 1), most)) {
        EXPECT_LE(run.inputs, most);
        const auto begin = addends.begin() + run.first;
        sums.push_back(tree_of(std::vector<float>(begin, begin + run.inputs)));
        widths.push_back(run.ranks);
      }
      EXPECT_EQ(sum_on_stack(sums, widths), tree_of(addends)) << ranks << " in " << most;
    }
  }
}

TEST(TreeSumTest, LeftHalfIsTheLargestPowerOfTwoBelow) {
  const std::vector<int> left = {1, 2, 2, 4, 4, 4, 4, 8};
  for (int ranks = 2; ranks <= 9; ++ranks) EXPECT_EQ(tree_left_ranks(ranks), left[ranks - 2]) << ranks;
}

class TreeOrderTest : public CommunicatorTest {
 protected:
  template <class Half>
  void expect_rounded_all_reduce() const {
    const int64_t count = 30'011;
    const auto rough = rough_halves<Half>(size(), count);
    const std::vector<Half> expected = rounded_trees_of(rough);
    run([&](Communicator& comm) {
      Values<Half> mine = values<Half>(count, [&](int64_t i) { return rough[comm.rank()][i]; });
      const int64_t before = comm.counts().bytes;
      comm.all_reduce(buffer_of(mine));
      EXPECT_TRUE(same_bits(mine.data(), expected.data(), count));
      const int64_t total = 2 * (size() - 1) * 2 * count;
      EXPECT_NEAR(comm.counts().bytes - before, total / size(), 1) << "two bytes a number";
    });
  }
};

TEST_P(TreeOrderTest, OrderShowsInTheBits) {
  // From left to right the sums are 1e8 + 1 - 1e8 + 1...: the 1 after 1e8 is lost, the 1 after 0 isn't. In the tree
  // both are lost.
  const std::vector<float> addends = {1e8f, 1, -1e8f, 1, 1e8f, 2, -1e8f, 3};
  const std::vector<float> expected = {1e8f, 1e8f, 0, 0, 1e8f, 1e8f, 0, 0};
  run([&](Communicator& comm) {
    Values<float> mine = values<float>(1, [&](int64_t) { return addends[comm.rank()]; });
    comm.all_reduce(buffer_of(mine));
    EXPECT_EQ(mine[0], expected[size() - 1]);
  });
}

TEST_P(TreeOrderTest, EverySumIsTheTreeToTheLastBit) {
  const int64_t part = 30'011, count = part * size();
  const auto rough = rough_values<float>(size(), count);
  const std::vector<float> expected = trees_of(rough);
  for (int repeat = 0; repeat < 5; ++repeat) {
    run([&](Communicator& comm) {
      const auto fresh = [&] { return values<float>(count, [&](int64_t i) { return rough[comm.rank()][i]; }); };
      Values<float> all = fresh(), reduced = fresh(), in = fresh();
      Values<float> out = values<float>(part, [](int64_t) { return 0; });
      const int root = repeat % size();
      comm.all_reduce(buffer_of(all));
      comm.reduce(buffer_of(reduced), root);
      comm.reduce_scatter(buffer_of(in), buffer_of(out));
      EXPECT_TRUE(same_bits(all.data(), expected.data(), count));
      if (comm.rank() == root) {
        EXPECT_TRUE(same_bits(reduced.data(), expected.data(), count));
      }
      EXPECT_TRUE(same_bits(out.data(), expected.data() + comm.rank() * part, part));
    });
  }
}

TEST_P(TreeOrderTest, SumsOfSixteenBitsAreRoundedOnce) {
  expect_rounded_all_reduce<Bfloat16>();
  expect_rounded_all_reduce<Float16>();
}

TEST_P(TreeOrderTest, BitsDontDependOnWhoArrivesLast) {
  const auto rough = rough_values<double>(size(), 1000);
  const std::vector<double> expected = trees_of(rough);
  run([&](Communicator& comm) {
    for (int late = 0; late < size(); ++late) {
      if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      Values<double> mine = values<double>(1000, [&](int64_t i) { return rough[comm.rank()][i]; });
      comm.all_reduce(buffer_of(mine));
      EXPECT_TRUE(same_bits(mine.data(), expected.data(), 1000));
    }
  });
}

DPTRAIN_COMMUNICATORS(kinds_in_tree_order(), TreeOrderTest, 1);

}  // namespace
}  // namespace dptrain
