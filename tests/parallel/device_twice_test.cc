// A device that is listed twice counts as two devices under every strategy.
#include <gtest/gtest.h>

#include "parallel/digits.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace device_twice_test {

/// Parameter: a strategy, or ddp with one of its options.
class ADeviceListedTwice : public ::testing::TestWithParam<const char*> {
 protected:
  /// The result of training on these devices, repeated to the number that the strategy takes.
  static Trained trained_on(const std::vector<DeviceId>& devices) {
    const std::string name = GetParam();
    const bool of_ddp = name == "next_forward" || name == "shards";
    StrategyOptions options{.name = of_ddp ? "ddp" : name};
    options.buckets.defer_updates = name == "next_forward";
    options.pipeline.micro_batches = 2;
    const bool hybrid = options.name == "hybrid";
    if (hybrid) options.pipeline.replicas = 2;
    options.devices = hybrid ? 4 : 2;
    for (int i = 0; i < options.devices; ++i) options.list.push_back(devices[static_cast<size_t>(i) % devices.size()]);
    StrategyContext context = context_of(options);
    if (name == "shards") context.shards = 4;
    const auto strategy = make_strategy(options, context);
    Trained trained;
    trained.losses = train(*strategy, digits(60, 10), 4, 15, 0.1, 2);
    trained.state = strategy->state_dict();
    return trained;
  }
};

TEST_P(ADeviceListedTwice, TrainsAsTwoDo) {
  const auto worker = [](int index) { return DeviceId{DeviceKind::cpu, index}; };
  expect_same_bits(trained_on({worker(0)}), trained_on({worker(0), worker(1), worker(2), worker(3)}));
}

INSTANTIATE_TEST_SUITE_P(Strategies, ADeviceListedTwice,
                         ::testing::Values("data_parallel", "parallel_criterion", "ddp", "ddp_sharded", "fsdp",
                                           "ddp_bf16", "ddp_fp16", "ddp_powersgd", "ddp_two_bit", "kvstore",
                                           "kvstore_local", "kvstore_dist_sync", "kvstore_round_robin",
                                           "model_parallel", "hybrid", "next_forward", "shards", "local_sgd"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace device_twice_test
}  // namespace dptrain::parallel
