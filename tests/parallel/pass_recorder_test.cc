// The passes of a step are run, then recorded in a rehearsal, then replayed; between them something is exchanged that
// isn't recorded. On devices that can't record they are run each time.

#include "parallel/pass_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/add.h"
#include "parallel/digits.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"

namespace dptrain::parallel {
namespace pass_recorder_test {

using namespace testing;
using Mode = PassRecorder::Mode;

class PassRecording : public ::testing::TestWithParam<DeviceRow> {
 protected:
  static BatchPart part_of(int64_t samples) {
    BatchPart part;
    part.sample_ids.resize(static_cast<size_t>(samples));
    part.targets = {std::vector<int32_t>(static_cast<size_t>(samples))};
    return part;
  }
  /// A step of two passes: the first makes 2 * `value`, the exchange hands that on, and the second adds it to `sum_`.
  void make_step(int64_t samples, const Tensor& value) {
    const BatchPart part = part_of(samples);
    passes_.make_step({&part}, [&](Mode mode) {
      const std::vector<Tensor> results = passes_.run([&] {
        ++given_;
        return std::vector<Tensor>{ops::add(value, value), Tensor::empty(*device_, {1})};
      });
      if (mode != Mode::rehearsed) {
        results[1].copy_from(results[0]);
        handed_on_.push_back(results[0].raw());
      }
      passes_.run_without_results([&] {
        ++given_;
        ops::add_into(sum_, results[1]);
      });
    });
  }

  std::unique_ptr<Device> device_ = GetParam().open();
  Replica replica_{*device_, context_of({.name = "single", .devices = 1}).replica, ReplicaDuties{}};
  PassRecorder passes_{replica_};
  Tensor sum_ = Tensor::zeros(*device_, {1});
  Tensor one_ = tensor_of(*device_, {1}, {1});
  int given_ = 0;
  std::vector<const void*> handed_on_;  ///< addresses, by step
};

TEST_P(PassRecording, EveryStepDoesTheWork) {
  for (int step = 0; step < 5; ++step) make_step(4, one_);
  EXPECT_EQ(sum_.values(), std::vector<float>{10});
  EXPECT_EQ(handed_on_.size(), 5u);
  // A GPU runs both passes once, and records both once.
  EXPECT_EQ(given_, device_->can_record() ? 4 : 10);
  EXPECT_EQ(replica_.take_graph_steps(), device_->can_record() ? 4 : 0);
  if (!device_->can_record()) return;
  for (int step = 2; step < 5; ++step)
    EXPECT_EQ(handed_on_[static_cast<size_t>(step)], handed_on_[1]) << "step " << step + 1;
}

TEST_P(PassRecording, OtherSizesAreRecordedApart) {
  const Tensor ten = tensor_of(*device_, {1}, {10});
  for (int step = 0; step < 4; ++step) {
    make_step(4, one_);
    make_step(3, ten);
  }
  EXPECT_EQ(sum_.values(), std::vector<float>{88});
  EXPECT_EQ(replica_.take_graph_steps(), device_->can_record() ? 6 : 0);
}

TEST_P(PassRecording, GoesOnlyAsFarAsOthers) {
  std::vector<StepRecorder::How> asked;
  StepRecorder::How others = StepRecorder::How::done;
  passes_.agree_by([&](StepRecorder::How own) {
    asked.push_back(own);
    return std::min(own, others);
  });
  for (int step = 0; step < 2; ++step) make_step(4, one_);
  EXPECT_EQ(replica_.take_graph_steps(), 0);
  EXPECT_EQ(asked[1], device_->can_record() ? StepRecorder::How::recorded : StepRecorder::How::done);
  others = StepRecorder::How::replayed;
  for (int step = 0; step < 2; ++step) make_step(4, one_);
  EXPECT_EQ(replica_.take_graph_steps(), device_->can_record() ? 2 : 0);
  EXPECT_EQ(sum_.values(), std::vector<float>{8});
}

INSTANTIATE_TEST_SUITE_P(Devices, PassRecording, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace pass_recorder_test
}  // namespace dptrain::parallel
