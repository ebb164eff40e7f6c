// A section of a step is run, then recorded, then replayed. On devices that can't record it is run each time.

#include "parallel/step_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/add.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"

namespace dptrain::parallel {
namespace step_recorder_test {

using namespace testing;
using How = StepRecorder::How;

class StepRecording : public ::testing::TestWithParam<DeviceRow> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(StepRecording, EveryRunDoesTheWork) {
  const Tensor sum = Tensor::zeros(*device_, {5}), step = tensor_of(*device_, {5}, {1, 2, 3, 4, 5});
  StepRecorder recorder(*device_);
  int given = 0;
  for (int run = 0; run < 5; ++run) {
    recorder.run(StepRecorder::Section::passes, {7}, [&](How) {
      ++given;
      ops::add_into(sum, ops::add(step, step));
    });
  }
  EXPECT_EQ(sum.values(), (std::vector<float>{10, 20, 30, 40, 50}));
  EXPECT_EQ(given, device_->can_record() ? 2 : 5);
}

TEST_P(StepRecording, OtherSignaturesAndPartsAreRecordedApart) {
  const Tensor sum = Tensor::zeros(*device_, {1}), one = tensor_of(*device_, {1}, {1}),
               ten = tensor_of(*device_, {1}, {10});
  StepRecorder recorder(*device_);
  for (int run = 0; run < 4; ++run) {
    recorder.run(StepRecorder::Section::passes, {1}, [&](How) { ops::add_into(sum, one); });
    recorder.run(StepRecorder::Section::passes, {2}, [&](How) { ops::add_into(sum, ten); });
    recorder.run(StepRecorder::Section::end, {1}, [&](How) { ops::add_into(sum, ten); });
  }
  EXPECT_EQ(sum.values(), (std::vector<float>{84}));
}

TEST_P(StepRecording, WhatIsAllocatedAfterwardsIsNotWrittenOver) {
  const Tensor out = Tensor::zeros(*device_, {1000}), x = tensor_of(*device_, {1000}, std::vector<float>(1000, 1.f));
  StepRecorder recorder(*device_);
  const auto twice = [&](How) { ops::add_into(out, ops::add(x, x)); };
  for (int run = 0; run < 3; ++run) recorder.run(StepRecorder::Section::passes, {}, twice);
  // The recorded temporary's tensor is freed; no other tensor may get its memory.
  std::vector<Tensor> kept;
  for (int i = 0; i < 4; ++i) kept.push_back(tensor_of(*device_, {1000}, std::vector<float>(1000, 5.f)));
  recorder.run(StepRecorder::Section::passes, {}, twice);
  for (const Tensor& tensor : kept) EXPECT_EQ(tensor.values(), std::vector<float>(1000, 5.f));
  EXPECT_EQ(out.values(), std::vector<float>(1000, 8.f));
}

/// Example: workspaces that were tried in order to choose one.
TEST_P(StepRecording, WhatTheFirstRunAloneNeededIsGivenBack) {
  constexpr int64_t kLarge = int64_t{64} << 20;
  const Tensor sum = Tensor::zeros(*device_, {1}), one = tensor_of(*device_, {1}, {1});
  CachingAllocator& allocator = device_->allocator();
  StepRecorder recorder(*device_);
  for (int run = 0; run < 2; ++run)
    recorder.run(StepRecorder::Section::passes, {}, [&](How how) {
      if (how == How::done && run == 0) {
        const PoolInUse pool(allocator, MemoryPool::common);
        const Buffer tried(*device_, kLarge, MemoryPurpose::workspace);
      }
      ops::add_into(sum, one);
    });
  const int64_t taken = allocator.source_calls();
  { const Buffer again(*device_, kLarge, MemoryPurpose::workspace); }
  EXPECT_EQ(allocator.source_calls(), taken + (device_->can_record() ? 1 : 0));
}

/// Giving memory back may wait for all of a GPU's work, which isn't allowed while it captures.
TEST_P(StepRecording, NothingIsGivenBackWhileItLasts) {
  constexpr int64_t kLarge = int64_t{64} << 20;
  const Tensor sum = Tensor::zeros(*device_, {1}), one = tensor_of(*device_, {1}, {1});
  CachingAllocator& allocator = device_->allocator();
  StepRecorder recorder(*device_);
  for (int run = 0; run < 2; ++run)
    recorder.run(StepRecorder::Section::passes, {}, [&](How) {
      if (run == 1) {
        const PoolInUse pool(allocator, MemoryPool::common);
        { const Buffer tried(*device_, kLarge, MemoryPurpose::workspace); }
        allocator.release_cached();
      }
      ops::add_into(sum, one);
    });
  int64_t taken = allocator.source_calls();
  { const Buffer again(*device_, kLarge, MemoryPurpose::workspace); }
  EXPECT_EQ(allocator.source_calls(), taken + (device_->can_record() ? 0 : 1));
  taken = allocator.source_calls();
  allocator.release_cached();
  { const Buffer again(*device_, kLarge, MemoryPurpose::workspace); }
  EXPECT_EQ(allocator.source_calls(), taken + 1) << "and is afterwards";
  EXPECT_EQ(sum.values(), (std::vector<float>{2}));
}

TEST_P(StepRecording, AFailureWhileRecordingLeavesTheDeviceUsable) {
  const Tensor x = tensor_of(*device_, {3}, {1, 2, 3});
  StepRecorder recorder(*device_);
  int runs = 0;
  const auto failing = [&](How) {
    ops::add(x, x);
    if (++runs == 2) throw std::runtime_error("second");
  };
  recorder.run(StepRecorder::Section::passes, {}, failing);
  EXPECT_THROW(recorder.run(StepRecorder::Section::passes, {}, failing), std::runtime_error);
  EXPECT_EQ(ops::add(x, x).values(), (std::vector<float>{2, 4, 6}));
}

/// Each rank goes only as far as all ranks can, and every run still does the work.
TEST_P(StepRecording, RanksGoAsFarAsTheLeastOfThem) {
  const Tensor sum = Tensor::zeros(*device_, {1}), one = Tensor::from(*device_, {1}, std::vector<float>{1});
  StepRecorder recorder(*device_);
  std::vector<How> least = {How::done,     How::done, How::recorded, How::recorded,
                            How::replayed, How::done, How::replayed};
  std::vector<How> told;
  size_t run = 0;
  std::vector<int> asked(least.size()), expected(least.size(), 1);
  recorder.agree_by([&](How how) {
    ++asked[run];
    return std::min(how, least[run]);
  });
  for (; run < least.size(); ++run)
    told.push_back(recorder.run(StepRecorder::Section::passes, {}, [&](How) { ops::add_into(sum, one); }));
  EXPECT_EQ(sum.values(), (std::vector<float>{7}));
  if (!device_->can_record()) least.assign(least.size(), How::done);
  EXPECT_EQ(told, least);
  // Ranks meet before each run. A recorded run has two meetings: before the recording and before the work.
  for (size_t i = 0; i < least.size(); ++i) expected[i] += least[i] == How::recorded ? 2 : 0;
  EXPECT_EQ(asked, expected);
}

INSTANTIATE_TEST_SUITE_P(Devices, StepRecording, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace step_recorder_test
}  // namespace dptrain::parallel
