// How a replica that records and another replica on the same GPU affect each other.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "device/cuda_probe.h"
#include "ops/add.h"
#include "parallel/gpu_strategies.h"
#include "parallel/step_recorder.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"

namespace dptrain::parallel {
namespace gpu_recording_test {

class CudaRecording : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
    device_ = open_device(kGpu);
    device_->enter_thread();
  }

  std::unique_ptr<Device> device_;
};

TEST_F(CudaRecording, WhatItForbidsSaysHowToDoWithout) {
  StepRecorder recorder(*device_);
  const auto waiting = [&](StepRecorder::How) { device_->synchronize(); };
  recorder.run(StepRecorder::Section::passes, {}, waiting);
  testing::expect_error(ExitCode::device, {"cudaErrorStreamCapture", "cuda_graphs: false"},
                        [&] { recorder.run(StepRecorder::Section::passes, {}, waiting); });
  device_->synchronize();
}

/// A first run may wait for all of the GPU's work, for example to load kernels. That isn't allowed while anything
/// records on the GPU.
TEST_F(CudaRecording, NobodyRecordsBesideAFirstRun) {
  const auto other = open_device(kGpu);
  const Tensor sum = Tensor::zeros(*other, {1}), one = testing::tensor_of(*other, {1}, {1});
  std::atomic<bool> has_recorded = false;
  std::thread recording;
  StepRecorder recorder(*device_);
  recorder.run(StepRecorder::Section::passes, {}, [&](StepRecorder::How) {
    recording = std::thread([&] {
      other->enter_thread();
      const auto work = other->record([&] { ops::add_into(sum, one); });
      has_recorded = true;
      work->run();
      other->synchronize();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(has_recorded);
  });
  recording.join();
  EXPECT_TRUE(has_recorded);
  EXPECT_EQ(sum.values(), (std::vector<float>{1}));
}

}  // namespace gpu_recording_test
}  // namespace dptrain::parallel
