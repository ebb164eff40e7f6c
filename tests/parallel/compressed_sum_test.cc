// What an exchange of compressed gradients gives: sums, residuals, bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/compressed_ranks.h"

namespace dptrain::parallel {
namespace compressed_sum_test {

using Method = CompressionOptions::Method;

/// A step's gradients: the sum of a part that stays and a part that changes from step to step.
CompressedRanks::Gradients gradients_of(int step) {
  return [step](int rank, const Parameter& parameter) {
    std::vector<float> values(static_cast<size_t>(parameter.shape().elements()));
    const auto index = static_cast<uint64_t>(parameter.index());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(testing::formula_uniform(1, index, i) +
                                     testing::formula_uniform(100 + step, 10 * index + rank, i));
    return values;
  };
}

/// Gradients whose sum over ranks is a matrix of rank 2.
CompressedRanks::Gradients of_rank_two(double size) {
  return [size](int rank, const Parameter& parameter) {
    const int64_t rows = parameter.shape()[0], columns = parameter.shape().elements() / rows;
    std::vector<float> values;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        values.push_back(static_cast<float>(
            size * (std::sin(static_cast<double>(r + 1)) * std::cos(static_cast<double>(c)) +
                    (rank + 1) * std::cos(static_cast<double>(3 * r)) * std::sin(static_cast<double>(2 * c + 1)))));
    return values;
  };
}

class Sums {
 public:
  void add(const std::vector<float>& values) {
    totals_.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) totals_[i] += values[i];
  }
  /// The norm of the difference, relative to the norm of `other`.
  double distance(const Sums& other) const {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < totals_.size(); ++i) {
      difference += std::pow(totals_[i] - other.totals_[i], 2);
      norm += std::pow(other.totals_[i], 2);
    }
    return std::sqrt(difference / norm);
  }

 private:
  std::vector<double> totals_;
};

Sums sum_of(CompressedRanks& ranks, const CompressedRanks::Gradients& gradients) {
  Sums sums;
  for (int rank = 0; rank < ranks.size(); ++rank)
    sums.add(ranks.laid_out([&](const Parameter& parameter) { return gradients(rank, parameter); }));
  return sums;
}

Sums sum_of(const std::vector<float>& values) {
  Sums sums;
  sums.add(values);
  return sums;
}

class EveryMethod : public ::testing::TestWithParam<Method> {
 protected:
  CompressionOptions options() const { return {.method = GetParam()}; }
};

TEST_P(EveryMethod, AllRanksEndInTheSameBitsAndRunsRepeat) {
  for (const int size : {2, 3, 5}) {
    SCOPED_TRACE(size);
    CompressedRanks ranks(options(), size), again(options(), size, {.bucket_mb = 0.01, .overlap = false});
    for (int step = 0; step < 3; ++step) {
      const auto after = ranks.exchange(gradients_of(step));
      for (const auto& of_rank : after) EXPECT_TRUE(of_rank == after[0]);
      EXPECT_TRUE(again.exchange(gradients_of(step)) == after) << "without overlap";
    }
  }
}

TEST_P(EveryMethod, PaddingStaysZero) {
  CompressedRanks ranks(options(), 2);
  const auto after = ranks.exchange(gradients_of(0));
  const auto padding = ranks.laid_out([](const Parameter& parameter) {
    return std::vector<float>(static_cast<size_t>(parameter.shape().elements()), 1);
  });
  for (size_t i = 0; i < padding.size(); ++i) {
    if (padding[i] == 0) {
      ASSERT_EQ(after[0][i], 0) << i;
    }
  }
}

TEST_P(EveryMethod, AnInfinityReachesEveryRankAndIsGoneWithTheNextStep) {
  CompressedRanks ranks(options(), 3);
  const auto ordinary = gradients_of(0);
  for (const float strange : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const auto* name : {"conv.weight", "fc2.bias"}) {
      SCOPED_TRACE(name);
      const auto overflowing = [&](int rank, const Parameter& parameter) {
        auto values = ordinary(rank, parameter);
        if (rank == 1 && parameter.name() == name) values[3] = strange;
        return values;
      };
      const auto is_finite = [](const std::vector<float>& values) {
        return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
      };
      for (const auto& of_rank : ranks.exchange(overflowing)) EXPECT_FALSE(is_finite(of_rank));
      for (const auto& of_rank : ranks.exchange(ordinary)) EXPECT_TRUE(is_finite(of_rank));
      for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(is_finite(ranks.residual(rank)));
    }
}

TEST_P(EveryMethod, WhatIsKeptGoesOnFromACheckpoint) {
  CompressedRanks whole(options(), 3), first(options(), 3), second(options(), 3);
  for (int step = 0; step < 3; ++step) {
    whole.exchange(gradients_of(step));
    first.exchange(gradients_of(step));
  }
  second.load(first.state());
  for (int step = 3; step < 6; ++step)
    EXPECT_TRUE(second.exchange(gradients_of(step)) == whole.exchange(gradients_of(step))) << step;
}

std::string method_name(const ::testing::TestParamInfo<Method>& info) { return compression_name(info.param); }

INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod,
                         ::testing::Values(Method::bf16, Method::fp16, Method::powersgd, Method::two_bit), method_name);

/// Parameters: compression options, and number of ranks.
class ErrorFeedback : public ::testing::TestWithParam<std::tuple<CompressionOptions, int>> {
 protected:
  CompressionOptions options() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};

TEST_P(ErrorFeedback, WhatIsAppliedAndWhatIsKeptAreAllThatWasGiven) {
  constexpr int kSteps = 20;
  CompressedRanks exchanging(options(), ranks());
  Sums applied, applied_and_kept, given;
  for (int step = 0; step < kSteps; ++step) {
    const auto after = exchanging.exchange(gradients_of(step));
    applied.add(after[0]);
    applied_and_kept.add(after[0]);
    for (int rank = 0; rank < ranks(); ++rank)
      given.add(exchanging.laid_out([&](const Parameter& parameter) { return gradients_of(step)(rank, parameter); }));
  }
  for (int rank = 0; rank < ranks(); ++rank) applied_and_kept.add(exchanging.residual(rank));
  EXPECT_LT(applied_and_kept.distance(given), 1e-5);
  EXPECT_GT(applied.distance(given), 1e-3) << "nothing was left out";
  // One direction per step is little for matrices of full rank.
  const double most_left_out = options().method == Method::powersgd && options().rank == 1 ? 0.85 : 0.5;
  EXPECT_LT(applied.distance(given), most_left_out) << "what stays of the gradients gets through";
}

TEST_P(ErrorFeedback, OnOtherRanksWhatWasKeptIsNotLost) {
  for (const int size : {1, 4}) {
    CompressedRanks before(options(), ranks()), after(options(), size);
    for (int step = 0; step < 3; ++step) before.exchange(gradients_of(step));
    after.load(before.state());
    Sums kept_before, kept_after;
    for (int rank = 0; rank < ranks(); ++rank) kept_before.add(before.residual(rank));
    for (int rank = 0; rank < size; ++rank) kept_after.add(after.residual(rank));
    EXPECT_LT(kept_after.distance(kept_before), 1e-6) << "rounded by two sums";
  }
}

/// A test's name: "powersgd_7_on_3"; "two_bit_150_on_3" has a threshold of 1.5.
std::string setting_name(const ::testing::TestParamInfo<std::tuple<CompressionOptions, int>>& info) {
  const CompressionOptions& options = std::get<0>(info.param);
  const int setting =
      options.method == Method::powersgd ? options.rank : static_cast<int>(std::lround(100 * options.threshold));
  return std::string(compression_name(options.method)) + "_" + std::to_string(setting) + "_on_" +
         std::to_string(std::get<1>(info.param));
}

const CompressionOptions kSettings[] = {{.method = Method::powersgd},
                                        {.method = Method::powersgd, .rank = 1},
                                        {.method = Method::powersgd, .rank = 7},
                                        {.method = Method::two_bit},
                                        {.method = Method::two_bit, .threshold = 0.5},
                                        {.method = Method::two_bit, .threshold = 1.5}};

INSTANTIATE_TEST_SUITE_P(Methods, ErrorFeedback,
                         ::testing::Combine(::testing::ValuesIn(kSettings), ::testing::Values(2, 3, 5)), setting_name);

TEST(HalfSums, RoundTwice) {
  // Each rank rounds its number to nearest once, and their sum is rounded once more.
  for (const auto& [method, bits] : {std::pair{Method::bf16, 8}, std::pair{Method::fp16, 11}}) {
    CompressedRanks ranks({.method = method}, 2);
    const auto after = ranks.exchange(gradients_of(0));
    EXPECT_LT(sum_of(after[0]).distance(sum_of(ranks, gradients_of(0))), 2 * std::ldexp(1.0, -bits));
  }
}

TEST(HalfSums, Fp16KeepsWhatItsRangeWouldLose) {
  for (const double size : {1e-30, 1e-7, 1.0, 1e6, 1e30}) {
    CompressedRanks ranks({.method = Method::fp16}, 3);
    const auto after = ranks.exchange(of_rank_two(size));
    EXPECT_LT(sum_of(after[0]).distance(sum_of(ranks, of_rank_two(size))), std::ldexp(1.0, -10)) << size;
  }
}

TEST(PowerSgd, ReproducesSumsOfItsRank) {
  for (const double size : {1.0, 1e-6}) {
    CompressedRanks ranks({.method = Method::powersgd, .rank = 3}, 3);
    // A step of zeros teaches the method nothing, and it must not forget anything either.
    ranks.exchange([](int, const Parameter& parameter) {
      return std::vector<float>(static_cast<size_t>(parameter.shape().elements()), 0.f);
    });
    const auto after = ranks.exchange(of_rank_two(size));
    EXPECT_LT(sum_of(after[0]).distance(sum_of(ranks, of_rank_two(size))), 1e-5) << "sums of f32";
  }
}

TEST(PowerSgd, OfFullRankIsThePlainSum) {
  CompressedRanks ranks({.method = Method::powersgd, .rank = 1000}, 3), plain({.method = Method::none}, 3);
  EXPECT_TRUE(ranks.exchange(gradients_of(0)) == plain.exchange(gradients_of(0)));
}

TEST(PowerSgd, ComesNearerWithEveryStep) {
  // The gradients are the same in every step: power iteration finds the largest singular vectors.
  CompressedRanks ranks({.method = Method::powersgd, .rank = 1}, 2);
  const auto gradients = [](int, const Parameter& parameter) {
    auto values = of_rank_two(1)(0, parameter);
    const auto more = gradients_of(0)(0, parameter);
    for (size_t i = 0; i < values.size(); ++i) values[i] += 0.1f * more[i];
    return values;
  };
  Sums given, applied;
  std::vector<double> distances;
  for (int step = 0; step < 12; ++step) {
    applied.add(ranks.exchange(gradients)[0]);
    for (int rank = 0; rank < 2; ++rank)
      given.add(ranks.laid_out([&](const Parameter& parameter) { return gradients(rank, parameter); }));
    distances.push_back(applied.distance(given));
  }
  EXPECT_LT(distances[11], 0.5 * distances[0]);
}

/// The bytes that all ranks send in one step.
int64_t bytes_of(CompressedRanks& ranks) {
  const int64_t before = ranks.sent_bytes();
  ranks.exchange(gradients_of(0));
  return ranks.sent_bytes() - before;
}

TEST(CompressedBytes, AreThoseOfTheFormulas) {
  for (const int size : {2, 3, 4}) {
    SCOPED_TRACE(size);
    CompressedRanks plain({.method = Method::none}, size);
    const nn::Model& model = plain.model();
    const int64_t all = 2 * (size - 1) * 4 * model.gradients().elements();
    EXPECT_EQ(bytes_of(plain), all);
    CompressedRanks bf16({.method = Method::bf16}, size), fp16({.method = Method::fp16}, size);
    EXPECT_EQ(bytes_of(bf16), all / 2);
    EXPECT_GT(fp16.buckets(), 1);
    EXPECT_EQ(bytes_of(fp16), all / 2 + 2 * (size - 1) * 4 * fp16.buckets());

    int64_t words = 0, factors = 0, whole = 0;
    for (const Parameter* parameter : model.parameters()) {
      const Shape& shape = parameter->shape();
      const int64_t storage = parameter->gradient().storage_elements();
      words += (storage + 15) / 16;
      if (parameter->name() == "conv.weight" || parameter->name() == "fc1.weight")
        factors += 4 * (shape[0] + shape.elements() / shape[0]);
      else
        whole += storage;
    }
    CompressedRanks two_bit({.method = Method::two_bit}, size);
    EXPECT_EQ(bytes_of(two_bit), size * (size - 1) * 4 * (words + static_cast<int64_t>(model.parameters().size())));
    CompressedRanks powersgd({.method = Method::powersgd, .rank = 4}, size);
    EXPECT_EQ(bytes_of(powersgd), 2 * (size - 1) * 4 * (factors + whole));
  }
}

}  // namespace compressed_sum_test
}  // namespace dptrain::parallel
