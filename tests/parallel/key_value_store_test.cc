// The key-value store without a strategy: what it does with keys, and with calls that no training step makes.
#include "parallel/key_value_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "nn/layers.h"
#include "optim/sgd.h"
#include "parallel/device_key_value_store.h"
#include "parallel/local_key_value_store.h"
#include "parallel/rank_team.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace key_value_store_test {

using testing::expect_error;

TEST(PlaceKeys, BalancedGoesByBytesLargestFirst) {
  EXPECT_EQ(place_keys({10, 90, 40, 60}, 2, Placement::balanced), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(place_keys({10, 10, 10}, 4, Placement::balanced), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(place_keys({5, 6}, 1, Placement::balanced), (std::vector<int>{0, 0}));
}

TEST(PlaceKeys, RoundRobinGoesByNumber) {
  EXPECT_EQ(place_keys({10, 90, 40, 60, 1}, 2, Placement::round_robin), (std::vector<int>{0, 1, 0, 1, 0}));
}

/// Parameters: whether the store is in host memory, and the number of ranks. Every rank has a layer of two keys, with
/// all weights 1.
class KeyValueStores : public ::testing::TestWithParam<std::tuple<bool, int>> {
 protected:
  KeyValueStores() : team_(team_options()), models_(static_cast<size_t>(ranks())), ends_(models_.size()) {
    if (std::get<0>(GetParam())) memory_ = std::make_shared<StoreMemory>(ranks(), 1);
    team_.run("start", [&](int rank) { start(rank); });
  }
  int ranks() const { return std::get<1>(GetParam()); }
  nn::Model& model(int rank) { return *models_[static_cast<size_t>(rank)]; }
  KeyValueStore& end(int rank) { return *ends_[static_cast<size_t>(rank)]; }
  static void fill(const Tensor& tensor, float value) { std::fill_n(tensor.data<float>(), tensor.elements(), value); }

  /// Makes a step in which rank r's gradients are all r + 1.
  void step(int rank) { step(rank, static_cast<float>(rank + 1)); }
  void step(int rank, float gradient) {
    fill(model(rank).gradients(), gradient);
    for (const StoreKey& key : end(rank).keys()) end(rank).push(key.name);
    end(rank).wait_for_pushes();
    end(rank).update({.learning_rate = 0.5}, nullptr);
  }
  void init(int rank) { end(rank).init(keys_of(model(rank))); }

  RankTeam team_;

 private:
  RankTeam::Options team_options() const {
    RankTeam::Options options{.devices = {}, .threads = std::vector<int>(static_cast<size_t>(ranks()), 1)};
    for (int rank = 0; rank < ranks(); ++rank) options.devices.push_back({DeviceKind::cpu, rank});
    return options;
  }
  void start(int rank) {
    auto& made = models_[static_cast<size_t>(rank)];
    made = std::make_unique<nn::Model>();
    made->add_stage(std::make_unique<nn::Linear>(30, 5));
    made->place(team_.device(rank), {});
    fill(made->weights(), 1);
    const StoreContext context{.model = *made,
                               .communicator = team_.communicator(rank),
                               .clock = clocks_[rank],
                               .optimizer = {.name = "sgd", .make = [](const optim::FlatWeights& flat) {
                                               return std::make_unique<optim::Sgd>(flat,
                                                                                   optim::SgdSettings{.momentum = 0.5});
                                             }}};
    auto& end = ends_[static_cast<size_t>(rank)];
    if (memory_ != nullptr)
      end = std::make_unique<LocalKeyValueStore>(context, team_.host_communicator(rank), memory_);
    else
      end = std::make_unique<DeviceKeyValueStore>(context, Placement::balanced);
  }

  std::array<PhaseClock, 8> clocks_;
  std::shared_ptr<StoreMemory> memory_;
  std::vector<std::unique_ptr<nn::Model>> models_;
  std::vector<std::unique_ptr<KeyValueStore>> ends_;
};

TEST_P(KeyValueStores, GivesWhatItUpdatedFromTheSumOfAllPushes) {
  const float sum = static_cast<float>(ranks() * (ranks() + 1)) / 2;
  team_.run("test", [&](int rank) {
    init(rank);
    for (const float moved : {0.5f * sum, 0.5f * sum + 0.75f * sum}) {  // the velocities are sum, then sum / 2 + sum
      step(rank);
      for (const StoreKey& key : end(rank).keys()) {
        end(rank).pull(key.name);
        const Tensor pulled = model(rank).weights().window(key.begin, {key.end - key.begin}, Layout::plain);
        EXPECT_EQ(pulled.values(), std::vector<float>(static_cast<size_t>(pulled.elements()), 1 - moved)) << key.name;
      }
    }
  });
}

TEST_P(KeyValueStores, KnowTheirStateByParameterOnRankZero) {
  team_.run("test", [&](int rank) {
    init(rank);
    step(rank);
    const auto state = end(rank).gather_state();
    ASSERT_EQ(state.size(), rank == 0 ? 2u : 0u);
    if (rank > 0) return;
    EXPECT_EQ(state[0].name, "momentum_buffer.weight");
    EXPECT_EQ(state[1].values, std::vector<float>(5, static_cast<float>(ranks() * (ranks() + 1)) / 2));
  });
}

TEST_P(KeyValueStores, HoldEveryKeyOnce) {
  std::vector<int64_t> held;
  team_.run("test", [&](int rank) {
    init(rank);
    if (rank == 0) held = end(rank).held_bytes();
  });
  const int64_t weights = model(0).weights().bytes();
  const bool local = std::get<0>(GetParam());
  EXPECT_EQ(held.size(), local ? 1u : static_cast<size_t>(ranks()));
  // The store holds weights and velocity, and in host memory every rank's gradients.
  EXPECT_EQ(std::accumulate(held.begin(), held.end(), int64_t{0}), (local ? 2 + ranks() : 2) * weights);
}

/// Runs with up to eight ranks.
class KeyValueStoreSums : public KeyValueStores {};

/// Sums are ((0+1)+(2+3))+... From three ranks on, these numbers have other sums from left to right, from right to
/// left, and by halving the ranks.
TEST_P(KeyValueStoreSums, HaveTheOrderOfTheTree) {
  constexpr float kLarge = 1 << 24;  // adding 1 is lost in rounding
  const std::vector<float> pushed = {5, 5, kLarge, 3, 1, 7, 2, kLarge / 2};
  const std::vector<float> sums = {5,           10,          kLarge + 10, kLarge + 14,
                                   kLarge + 16, kLarge + 22, kLarge + 24, 1.5f * kLarge + 24};
  const float expected = 1 - 0.5f * sums[static_cast<size_t>(ranks() - 1)];
  team_.run("test", [&](int rank) {
    init(rank);
    step(rank, pushed[static_cast<size_t>(rank)]);
    for (const StoreKey& key : end(rank).keys()) {
      end(rank).pull(key.name);
      const Tensor pulled = model(rank).weights().window(key.begin, {key.end - key.begin}, Layout::plain);
      EXPECT_EQ(pulled.values(), std::vector<float>(static_cast<size_t>(pulled.elements()), expected)) << key.name;
    }
  });
}

/// Runs with one rank, since each of these calls would end a team.
class KeyValueStoreAlone : public KeyValueStores {};

TEST_P(KeyValueStoreAlone, RefusesKeysThatItHasOrDoesntHave) {
  team_.run("test", [&](int rank) {
    init(rank);
    expect_error(ExitCode::bug, {"given keys again"}, [&] { init(rank); });
    expect_error(ExitCode::bug, {"conv9.weight", "none of the store's 2"}, [&] { end(rank).push("conv9.weight"); });
    expect_error(ExitCode::bug, {"conv9.weight", "none of the store's 2"}, [&] { end(rank).pull("conv9.weight"); });
    end(rank).push("weight");
    expect_error(ExitCode::bug, {"'weight' is pushed twice"}, [&] { end(rank).push("weight"); });
    expect_error(ExitCode::bug, {"'bias'", "wasn't pushed"}, [&] { end(rank).wait_for_pushes(); });
  });
}

/// Runs with several ranks, which wait for each other.
class SharedKeyValueStores : public KeyValueStores {};

TEST_P(SharedKeyValueStores, ARankThatFailsEndsTheOthersWaits) {
  expect_error(ExitCode::device, {"rank 1", "out of everything"}, [&] {
    team_.run("test", [&](int rank) {
      init(rank);
      if (rank == 1) throw Error(ExitCode::device, "out of everything");
      step(rank);
    });
  });
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<bool, int>>& info) {
  return (std::get<0>(info.param) ? "local_" : "device_") + std::to_string(std::get<1>(info.param));
}

const auto kTypes = ::testing::Bool();
INSTANTIATE_TEST_SUITE_P(Types, KeyValueStores, ::testing::Combine(kTypes, ::testing::Range(1, 5)), case_name);
INSTANTIATE_TEST_SUITE_P(Types, KeyValueStoreSums, ::testing::Combine(kTypes, ::testing::Range(1, 9)), case_name);
INSTANTIATE_TEST_SUITE_P(Types, KeyValueStoreAlone, ::testing::Combine(kTypes, ::testing::Values(1)), case_name);
INSTANTIATE_TEST_SUITE_P(Types, SharedKeyValueStores, ::testing::Combine(kTypes, ::testing::Range(2, 5)), case_name);

}  // namespace key_value_store_test
}  // namespace dptrain::parallel
