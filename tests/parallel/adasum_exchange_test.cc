// Adasum over ranks: the paper's formula up the tree, the same bits on every rank and every device, and parts of
// weights that not every rank has.
#include "parallel/adasum_exchange.h"

#include <memory>
#include <vector>

#include "parallel/rank_team.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"

namespace dptrain::parallel {
namespace adasum_exchange_test {

using namespace testing;
using Values = std::vector<float>;

constexpr DeviceId kCpu = {DeviceKind::cpu, 0};

Values change_of(int rank, int64_t elements) {
  return Formula{.tensor = static_cast<uint64_t>(rank), .centre = 0.1}.values(elements);
}

/// What every rank has after an exchange. `sizes`: elements of each parameter.
std::vector<Values> combined(const std::vector<DeviceId>& devices, const std::vector<int64_t>& sizes) {
  const std::vector<int> threads(devices.size(), 1);
  RankTeam team({.devices = devices, .threads = threads, .deterministic = true});
  std::vector<Values> after(devices.size());
  team.run("combine", [&](int rank) {
    Device& device = team.device(rank);
    optim::FlatWeights flat{.weights = {}, .gradients = {}, .parameters = std::ssize(sizes)};
    int64_t elements = 0;
    for (const int64_t size : sizes) {
      flat.runs.push_back({.parameter = std::ssize(flat.runs), .elements = size, .dimensions = 2});
      elements += size;
    }
    flat.weights = Tensor::zeros(device, {elements});
    AdasumExchange exchange(team.communicator(rank), flat, [&] { device.synchronize(); });
    const Tensor change = tensor_of(device, {elements}, change_of(rank, elements));
    exchange.combine(change);
    after[static_cast<size_t>(rank)] = change.values();
  });
  return after;
}

std::vector<double> adasum_of(const std::vector<double>& a, const std::vector<double>& b,
                              const std::vector<int64_t>& sizes) {
  std::vector<double> result(a.size());
  size_t begin = 0;
  for (const int64_t size : sizes) {
    const size_t end = begin + static_cast<size_t>(size);
    double aa = 0, bb = 0, ab = 0;
    for (size_t i = begin; i < end; ++i) {
      aa += a[i] * a[i];
      bb += b[i] * b[i];
      ab += a[i] * b[i];
    }
    for (size_t i = begin; i < end; ++i) result[i] = (1 - ab / (2 * aa)) * a[i] + (1 - ab / (2 * bb)) * b[i];
    begin = end;
  }
  return result;
}

/// The tree's left half has the largest power of two of ranks that is below their number.
std::vector<double> of_tree(int first, int ranks, const std::vector<int64_t>& sizes, int64_t elements) {
  if (ranks == 1) {
    const Values change = change_of(first, elements);
    return {change.begin(), change.end()};
  }
  int left = 1;
  while (2 * left < ranks) left *= 2;
  return adasum_of(of_tree(first, left, sizes, elements), of_tree(first + left, ranks - left, sizes, elements), sizes);
}

class AdasumRanks : public ::testing::TestWithParam<DeviceRow> {
 protected:
  void SetUp() override {
    if (GetParam().device.kind == DeviceKind::cuda && cuda_devices().empty())
      GTEST_SKIP() << "no row " << GetParam().name << ": " << cuda_absence();
  }
};

/// Of 48 elements, two ranks of five have none.
TEST_P(AdasumRanks, CombinePairByPairUpTheTree) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{32, 16}, {16, 10'000, 48}})
    for (const int ranks : {1, 2, 3, 5, 6, 7}) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << sizes.size() << " tensors");
      int64_t elements = 0;
      for (const int64_t size : sizes) elements += size;
      const std::vector<double> right = of_tree(0, ranks, sizes, elements);
      const std::vector<DeviceId> devices(static_cast<size_t>(ranks), GetParam().device);
      const std::vector<Values> got = combined(devices, sizes);
      for (const Values& of_rank : got) EXPECT_EQ(of_rank, got.front());
      for (size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(got.front()[i], right[i], 1e-5) << i;
      const std::vector<DeviceId> cpus(static_cast<size_t>(ranks), kCpu);
      EXPECT_EQ(got.front(), combined(cpus, sizes).front());
    }
}

/// GPUs and CPU workers together end in the bits of CPU workers.
TEST_P(AdasumRanks, OfUnlikeDevicesEndInTheSameBits) {
  const std::vector<int64_t> sizes = {16, 10'000, 48};
  const std::vector<Values> got = combined({GetParam().device, kCpu, GetParam().device}, sizes),
                            right = combined({kCpu, kCpu, kCpu}, sizes);
  EXPECT_EQ(got, right);
}

INSTANTIATE_TEST_SUITE_P(Rows, AdasumRanks, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace adasum_exchange_test
}  // namespace dptrain::parallel
