#include "parallel/recording_agreement.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "comm/thread_communicator.h"

namespace dptrain::parallel {
namespace recording_agreement_test {

using How = StepRecorder::How;
using Sizes = std::optional<StepRecorder::Signature>;

/// Two ranks that agree on recording.
class RecordingAgreementTest : public ::testing::Test {
 protected:
  /// Returns how a step of these sizes runs if each rank could go as far as `first` and `second`. Expects the ranks to
  /// communicate `meetings` times for it.
  How step(const Sizes& sizes, How first, How second, int64_t meetings) {
    const int64_t before = ranks_[0]->counts().collectives;
    std::vector<How> all(2);
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        agreements_[rank].begin_step(sizes);
        all[rank] = agreements_[rank].of_all(rank == 0 ? first : second);
        if (all[rank] == How::recorded) {
          EXPECT_EQ(agreements_[rank].of_all(How::recorded), How::recorded);
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(all[0], all[1]);
    EXPECT_EQ(ranks_[0]->counts().collectives - before, meetings);
    return all[0];
  }
  How step(const Sizes& sizes, How both, int64_t meetings) { return step(sizes, both, both, meetings); }

 private:
  std::vector<std::unique_ptr<Communicator>> ranks_ = make_thread_communicators(2, {.timeout_s = 60});
  std::vector<RecordingAgreement> agreements_ = {RecordingAgreement(*ranks_[0]), RecordingAgreement(*ranks_[1])};
};

TEST_F(RecordingAgreementTest, GoesAsFarAsTheLeast) {
  EXPECT_EQ(step({{8}}, How::done, How::done, 1), How::done);
  EXPECT_EQ(step({{8}}, How::recorded, How::done, 1), How::done);
  EXPECT_EQ(step({{8}}, How::recorded, How::recorded, 2), How::recorded);
  EXPECT_EQ(step({{8}}, How::replayed, How::recorded, 2), How::recorded);
}

TEST_F(RecordingAgreementTest, WhatAllHaveReplayedIsNotAskedForAgain) {
  step({{8}}, How::replayed, 1);
  EXPECT_EQ(step({{8}}, How::replayed, 0), How::replayed);
  EXPECT_EQ(step({{8}}, How::replayed, 0), How::replayed);
}

/// Larger steps move the memory that recordings refer to, on every rank when it meets the new size.
TEST_F(RecordingAgreementTest, NewSizesAskForAllAgain) {
  step({{8}}, How::replayed, 1);
  step({{8}}, How::replayed, 0);
  step({{16}}, How::done, 1);
  EXPECT_EQ(step({{8}}, How::done, How::replayed, 1), How::done);
  step({{8}}, How::replayed, 1);
  step({{16}}, How::replayed, 1);
  step({{8}}, How::replayed, 0);
  step({{16}}, How::replayed, 0);
}

TEST_F(RecordingAgreementTest, SizesThatAreNotKnownAreAskedForEachTime) {
  step({}, How::replayed, 1);
  step({}, How::replayed, 1);
  EXPECT_EQ(step({}, How::replayed, How::done, 1), How::done);
}

}  // namespace recording_agreement_test
}  // namespace dptrain::parallel
