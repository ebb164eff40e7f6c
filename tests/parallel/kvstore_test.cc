// kvstore: weights bit-identical to ddp's with any store, the bytes that it sends, and where its memory is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "models/bert.h"
#include "parallel/digits.h"
#include "parallel/trained_state.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace kvstore_test {

constexpr const char* kStores[] = {"kvstore", "kvstore_round_robin", "kvstore_local", "kvstore_dist_sync",
                                   "kvstore_dist_device_sync"};

StrategyOptions options_of(const char* name, int devices) {
  return {.name = name,
          .devices = devices,
          .adam = optim::AdamSettings{.weight_decay = 0.1, .decoupled = true},
          .clip_norm = 0.5,
          .average_decay = 0.9,
          .micro_batches = 3};
}

TrainingState goes_on(const StrategyOptions& options, const TrainingState& from, int64_t steps = 4) {
  const auto strategy = make_strategy(options);
  strategy->restore(from);
  train(*strategy, digits(50 * steps, 10), steps, 50, 0.01, options.micro_batches);
  return strategy->training_state();
}

TEST(KvStore, EndsInTheBitsOfDdp) {
  for (const int devices : {1, 2, 3, 4}) {
    const TrainingState ddp = goes_on(options_of("ddp", devices), {});
    for (const char* name : kStores) {
      SCOPED_TRACE(::testing::Message() << name << " on " << devices);
      const TrainingState stored = goes_on(options_of(name, devices), {});
      expect_same_bits(stored.model, ddp.model);
      expect_same_bits(stored.optimizer, ddp.optimizer);
      expect_same_bits(stored.average, ddp.average);
    }
  }
}

/// Each server has parts of parameters, and the servers exchange the norms of their parts.
TEST(KvStore, GoesByTheNormsOfWholeParameters) {
  StrategyOptions by_layers[2] = {options_of("ddp", 3), options_of("ddp", 3)};
  by_layers[0].lars = {.weight_decay = 0.1, .adapts_vectors = true};
  by_layers[1].lamb.emplace();
  for (StrategyOptions& options : by_layers) {
    options.adam.reset();
    options.name = "ddp";
    const TrainingState ddp = goes_on(options, {});
    for (const char* name : kStores) {
      SCOPED_TRACE(::testing::Message() << name << " with " << optimizer_of(options).name);
      options.name = name;
      const TrainingState half = goes_on(options, {}, 2);
      const TrainingState stored = goes_on(options, {});
      expect_same_bits(stored.model, ddp.model);
      expect_same_bits(stored.optimizer, ddp.optimizer);
      // The same must hold after a checkpoint, on a newly made store.
      options.name = "ddp";
      const TrainingState resumed = goes_on(options, half, 2);
      options.name = name;
      expect_same_bits(goes_on(options, half, 2).model, resumed.model);
    }
  }
}

TEST(KvStore, AServerMayHaveNothing) {
  StrategyOptions clipped = options_of("ddp", 2), by_layers = clipped;
  by_layers.adam.reset();
  by_layers.lamb.emplace();
  for (StrategyOptions options : {clipped, by_layers}) {
    SCOPED_TRACE(optimizer_of(options).name);
    const TrainingState ddp = goes_on(options, {});
    options.name = "kvstore_dist_sync_on_nine";
    const TrainingState stored = goes_on(options, {});
    expect_same_bits(stored.model, ddp.model);
    expect_same_bits(stored.optimizer, ddp.optimizer);
  }
}

/// Servers that were made earlier already wait for commands.
TEST(KvStore, AServerThatCannotBeMadeEndsTheOthers) {
  for (const char* name : {"kvstore_dist_sync", "kvstore_dist_async"})
    for (const int failing : {1, 2}) {
      const StrategyOptions options = options_of(name, 2);
      StrategyContext context = context_of(options);
      std::atomic<int> made = 0;
      context.replica.optimizer.make = [&, make = context.replica.optimizer.make](const optim::FlatWeights& weights) {
        if (++made == failing) throw Error(ExitCode::device, "out of memory for a server");
        return make(weights);
      };
      testing::expect_error(ExitCode::device, {"out of memory for a server"}, [&] { make_strategy(options, context); });
    }
}

/// With one process no other process updates the weights, and a push has its step's learning rate.
TEST(KvStore, OfOneProcessIsDdpAlsoWhereItIsAsynchronous) {
  for (const int devices : {1, 3}) {
    StrategyOptions options = options_of("ddp", devices);
    options.clip_norm = {};
    const TrainingState ddp = goes_on(options, {});
    options.name = "kvstore_dist_async";
    const TrainingState stored = goes_on(options, {});
    expect_same_bits(stored.model, ddp.model);
    expect_same_bits(stored.optimizer, ddp.optimizer);
    const auto strategy = make_strategy(options);
    train(*strategy, digits(100, 10), 2, 50, 0.01, options.micro_batches);
    EXPECT_EQ(strategy->take_staleness()->pushes, std::vector<int64_t>{2 * 3}) << "two steps on three servers";
    EXPECT_TRUE(strategy->take_staleness()->pushes.empty()) << "since the last call";
  }
}

TEST(KvStore, ComputesInBf16AsDdpDoes) {
  StrategyOptions options = options_of("ddp", 2);
  options.precision = Precision::bf16;
  const TrainingState ddp = goes_on(options, {});
  for (const char* name : kStores) {
    options.name = name;
    expect_same_bits(goes_on(options, {}).model, ddp.model);
  }
}

TEST(KvStore, CheckpointsAreThoseOfDdpOnAnyDevices) {
  for (const char* name : kStores) {
    SCOPED_TRACE(name);
    const TrainingState start = goes_on(options_of(name, 3), {});
    for (const int devices : {1, 2}) {
      const TrainingState ddp = goes_on(options_of("ddp", devices), start);
      const TrainingState stored = goes_on(options_of(name, devices), start);
      expect_same_bits(stored.model, ddp.model);
      expect_same_bits(stored.optimizer, ddp.optimizer);
    }
  }
}

TEST(KvStore, SendsWhatItsTypeNeeds) {
  const auto bytes_of = [](const char* name, int devices, std::optional<double> clip_norm = {},
                           std::optional<optim::LarsSettings> lars = {}) {
    const auto strategy = make_strategy({.name = name, .devices = devices, .lars = lars, .clip_norm = clip_norm});
    train(*strategy, digits(50, 10), 1, 50, 0.01);
    int64_t bytes = 0;
    for (int rank = 0; rank < devices; ++rank) bytes += strategy->take_costs(rank).communication.bytes;
    return bytes;
  };
  const int64_t weights = bytes_of("kvstore_local", 1) / 2;  // half is sent to the host, half back
  for (const int devices : {1, 2, 3, 4}) {
    SCOPED_TRACE(devices);
    // All ranks except the key's owner send it their gradient and receive its weights.
    EXPECT_EQ(bytes_of("kvstore", devices), 2 * (devices - 1) * weights);
    EXPECT_EQ(bytes_of("kvstore_round_robin", devices), 2 * (devices - 1) * weights);
    EXPECT_EQ(bytes_of("kvstore_local", devices), 2 * devices * weights);
    EXPECT_EQ(bytes_of("kvstore", devices, 0.5), 2 * (devices - 1) * (weights + 128)) << "a sum of squares";
    EXPECT_EQ(bytes_of("kvstore_local", devices, 0.5), 2 * devices * weights) << "all squares are on the host";
    EXPECT_EQ(bytes_of("kvstore", devices, {}, optim::LarsSettings()), 2 * (devices - 1) * weights) << "whole keys";
  }
}

/// A small BERT on three devices; its embedding is about a third of it.
std::unique_ptr<Strategy> bert_of_many_words(const char* name) {
  const models::TextSizes text{.vocabulary = 250, .sequence = 24};
  const StrategyOptions options{.name = name, .devices = 3, .adam = optim::AdamSettings{}};
  StrategyContext context = context_of(options);
  const models::BertOptions sizes{
      .vocabulary = text.vocabulary, .hidden = 16, .layers = 2, .heads = 2, .sequence = text.sequence};
  context.replica.model = {.name = "bert", .build = [sizes](const nn::LayerOptions&, const models::ModelInput& input) {
                             return models::build_bert(sizes, input);
                           }};
  context.replica.input = {.text = text};
  return make_strategy(options, context);
}

TEST(KvStore, RoundRobinFillsTheDeviceThatHasTheEmbedding) {
  const auto imbalance = [](const char* name) {
    const auto strategy = bert_of_many_words(name);
    const auto use = strategy->store();
    std::vector<double> bytes;
    for (int rank = 0; rank < 3; ++rank) {
      const int64_t state = strategy->device(rank).allocator().in_use()[MemoryPurpose::optimizer];
      // Adam adds two tensors to the weights themselves.
      EXPECT_EQ(use->bytes[static_cast<size_t>(rank)], state / 2 * 3) << "what the device counts";
      bytes.push_back(static_cast<double>(state));
    }
    return *std::ranges::max_element(bytes) / *std::ranges::min_element(bytes);
  };
  EXPECT_LT(imbalance("kvstore"), 1.1);
  EXPECT_GT(imbalance("kvstore_round_robin"), 3);
}

TEST(KvStore, OfTypeLocalTakesNoMemoryOfDevices) {
  const auto strategy = make_strategy({.name = "kvstore_local", .devices = 2, .adam = optim::AdamSettings{}});
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(strategy->device(rank).allocator().in_use()[MemoryPurpose::optimizer], 0);
  const int64_t weights = strategy->device(0).allocator().in_use()[MemoryPurpose::gradients];
  EXPECT_EQ(strategy->store()->bytes, std::vector<int64_t>{5 * weights}) << "weights, two of Adam's, two gradients";
}

TEST(KvStore, PushesOnceAStep) {
  const auto counts_of = [](int64_t micro_batches) {
    const auto strategy = make_strategy({.name = "kvstore", .devices = 2});
    train(*strategy, digits(64, 10), 1, 64, 0.05, micro_batches);
    return strategy->take_costs(0).communication;
  };
  EXPECT_EQ(counts_of(4).bytes, counts_of(1).bytes);
  EXPECT_EQ(counts_of(4).collectives, counts_of(1).collectives);
}

}  // namespace kvstore_test
}  // namespace dptrain::parallel
