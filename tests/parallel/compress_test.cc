// ddp with compressed gradients: LeNet learns from them as well as from plain ones, and resumes from checkpoints.
#include <gtest/gtest.h>

#include <numeric>

#include "parallel/digits.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace compress_test {

StrategyOptions options_of(const std::string& name, int devices) {
  return {.name = name, .devices = devices, .buckets = {.bucket_mb = 0.5}, .sgd = {.momentum = 0.9}};
}

/// The names of ddp with each method.
class Compress : public ::testing::TestWithParam<const char*> {};

TEST_P(Compress, LearnsAsDdpDoes) {
  const Datasets data = digits(4000, 10);
  const auto last_epoch = [&](const std::string& name) {
    StrategyOptions options = options_of(name, 2);
    options.sgd = {};
    const auto strategy = make_strategy(options);
    std::vector<double> losses;
    for (int epoch = 0; epoch < 4; ++epoch) losses = train(*strategy, data, 80, 50, 0.1);
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  };
  static const double reference = last_epoch("ddp");
  EXPECT_LT(reference, 0.2) << "it learns";
  EXPECT_NEAR(last_epoch(GetParam()), reference, 0.05 * reference);
}

TEST_P(Compress, ARunCanBeRepeatedBitForBit) {
  const Datasets data = digits(250, 10);
  const auto trained = [&](bool overlap) {
    StrategyOptions options = options_of(GetParam(), 3);
    options.buckets.overlap = overlap;
    const auto strategy = make_strategy(options);
    train(*strategy, data, 5, 50, 0.05);
    return strategy->state_dict();
  };
  const State first = trained(true);
  expect_same_bits(trained(true), first);
  expect_same_bits(trained(false), first);
}

TEST_P(Compress, GoesOnFromACheckpointInTheSameBits) {
  const Datasets data = digits(200, 10);
  const auto whole = make_strategy(options_of(GetParam(), 3)), second = make_strategy(options_of(GetParam(), 3));
  train(*whole, data, 4, 50, 0.05);
  second->restore(whole->training_state());
  train(*whole, data, 4, 50, 0.05);
  train(*second, data, 4, 50, 0.05);
  expect_same_bits(second->state_dict(), whole->state_dict());
}

TEST_P(Compress, OtherDevicesAndOtherMethodsGoOnFromIt) {
  const Datasets data = digits(200, 10);
  const auto before = make_strategy(options_of(GetParam(), 3));
  train(*before, data, 4, 50, 0.05);
  const TrainingState state = before->training_state();
  for (const char* name : {"ddp", "ddp_bf16", "ddp_powersgd", "ddp_two_bit"})
    for (const int devices : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << name << " on " << devices);
      const auto after = make_strategy(options_of(name, devices));
      after->restore(state);
      expect_same_bits(after->state_dict(), state.model);
      EXPECT_LT(train(*after, data, 4, 50, 0.05).back(), 2.3) << "better than chance";
    }
}

TEST_P(Compress, OneDeviceCompressesNothing) {
  const Datasets data = digits(200, 10);
  const auto trained = [&](const std::string& name) {
    const auto strategy = make_strategy(options_of(name, 1));
    train(*strategy, data, 4, 50, 0.05);
    EXPECT_TRUE(strategy->training_state().compression.empty());
    return strategy->state_dict();
  };
  expect_same_bits(trained(GetParam()), trained("ddp"));
}

TEST_P(Compress, MicroBatchesAreCompressedOnce) {
  const auto counts_of = [](int64_t micro_batches) {
    const auto strategy = make_strategy(options_of(GetParam(), 2));
    train(*strategy, digits(64, 10), 1, 64, 0.05, micro_batches);
    return strategy->take_costs(0).communication;
  };
  EXPECT_GT(counts_of(1).bytes, 0);
  EXPECT_EQ(counts_of(4).bytes, counts_of(1).bytes);
  EXPECT_EQ(counts_of(4).collectives, counts_of(1).collectives);
}

TEST_P(Compress, WhatItKeepsIsCountedAsCommunication) {
  const auto strategy = make_strategy(options_of(GetParam(), 2));
  const int64_t gradients = strategy->device(0).allocator().in_use()[MemoryPurpose::gradients];
  const int64_t kept = strategy->device(0).allocator().in_use()[MemoryPurpose::communication];
  const bool keeps_residual = !strategy->training_state().compression.empty();
  EXPECT_GE(kept, keeps_residual ? gradients : gradients / 2);
  EXPECT_LE(kept, 1.3 * static_cast<double>(gradients));
}

INSTANTIATE_TEST_SUITE_P(Methods, Compress, ::testing::Values("ddp_bf16", "ddp_fp16", "ddp_powersgd", "ddp_two_bit"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace compress_test
}  // namespace dptrain::parallel
