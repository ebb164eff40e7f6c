// Tensors own or share a device's memory; views see parts of it.

#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>

#include "device/cpu_device.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

std::vector<float> counting(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.f);
  return values;
}

class Tensors : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = testing::test_device();
};

TEST_F(Tensors, OfAWorkerAreSeenFromItsCores) {
  const auto worker = open_device({DeviceKind::cpu, 0}, {.threads = 2});
  const auto core = CpuDevice::core_of(*worker);
  EXPECT_EQ(core->threads(), 1);
  EXPECT_EQ(core->name(), "cpu:0");
  Tensor seen;
  {
    const Tensor tensor = Tensor::from(*worker, {2, 3}, counting(6));
    seen = tensor.seen_from(*core);
    EXPECT_EQ(seen.raw(), tensor.raw());
    EXPECT_EQ(&seen.device(), core.get());
    seen.fill_zero();
    EXPECT_EQ(tensor.values(), std::vector<float>(6, 0.f));
  }
  const int64_t held = worker->allocator().in_use().total_bytes();
  EXPECT_GE(held, 24) << "as long as somebody sees it";
  const Tensor own = Tensor::zeros(*core, {1000}, {});
  EXPECT_GE(worker->allocator().in_use().total_bytes(), held + 4000) << "a core's memory is the worker's";
  seen = Tensor();
  EXPECT_LT(worker->allocator().in_use().total_bytes(), held + 4000);
}

TEST_F(Tensors, HoldTheirValues) {
  const Tensor tensor = Tensor::from(*device_, {2, 3}, counting(6));
  EXPECT_EQ(tensor.values(), counting(6));
  EXPECT_EQ(tensor.text(), "f32 [2, 3] plain on cpu:0");
  EXPECT_EQ(tensor.bytes(), 24);
  EXPECT_EQ(Tensor::zeros(*device_, {3}).values(), std::vector<float>(3));
  EXPECT_FALSE(Tensor().defined());
}

TEST_F(Tensors, CountAsTheirPurposeUntilTheLastCopyEnds) {
  Tensor tensor =
      Tensor::empty(*device_, {2, 20, 2, 2}, {.layout = Layout::nchw16c, .purpose = MemoryPurpose::gradients});
  EXPECT_EQ(device_->allocator().in_use()[MemoryPurpose::gradients], 2 * 32 * 4 * 4);
  Tensor view = tensor.samples(0, 1);
  tensor = Tensor();
  EXPECT_GT(device_->allocator().in_use().total_bytes(), 0);
  view = Tensor();
  EXPECT_EQ(device_->allocator().in_use().total_bytes(), 0);
}

TEST_F(Tensors, CopiesShareMemory) {
  const Tensor tensor = Tensor::zeros(*device_, {4});
  const Tensor copy = tensor;
  copy.data<float>()[2] = 5;
  EXPECT_EQ(tensor.values(), (std::vector<float>{0, 0, 5, 0}));
}

TEST_F(Tensors, KnowWhetherTheirMemoryIsTheirOwn) {
  const Tensor tensor = Tensor::zeros(*device_, {4});
  EXPECT_TRUE(tensor.is_unique());
  {
    const Tensor view = tensor.samples(0, 2);
    EXPECT_FALSE(tensor.is_unique());
    EXPECT_FALSE(view.is_unique());
  }
  EXPECT_TRUE(tensor.is_unique());
}

TEST_F(Tensors, AreReshapedInPlace) {
  const Tensor tensor = Tensor::from(*device_, {2, 6}, counting(12));
  const Tensor view = tensor.reshaped({3, 4});
  EXPECT_EQ(view.raw(), tensor.raw());
  EXPECT_EQ(view.values(), counting(12));
  testing::expect_error(ExitCode::bug, {"[5, 2]"}, [&] { tensor.reshaped({5, 2}); });
  const Tensor images = Tensor::empty(*device_, {1, 16, 2, 2}, {.layout = Layout::nchw16c});
  testing::expect_error(ExitCode::bug, {"nchw16c"}, [&] { images.reshaped({64}); });
}

TEST_F(Tensors, OfOnePositionLieInNhwcAsPlain) {
  const Tensor features = Tensor::from(*device_, {2, 3}, counting(6));
  const Tensor pixels = features.window(0, {2, 3, 1, 1}, Layout::nhwc);
  EXPECT_EQ(pixels.reshaped({2, 3}).values(), counting(6));
  EXPECT_EQ(pixels.reshaped({2, 3}).raw(), features.raw());
  testing::expect_error(ExitCode::bug, {"[1, 3, 2, 1] nhwc", "can't be viewed as [6]"}, [&] {
    features.window(0, {1, 3, 2, 1}, Layout::nhwc).reshaped({6});
  });
}

TEST_F(Tensors, GiveTheirSamples) {
  const Tensor tensor = Tensor::from(*device_, {4, 3}, counting(12));
  EXPECT_EQ(tensor.samples(1, 3).values(), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(tensor.samples(1, 3).samples(1, 2).values(), (std::vector<float>{6, 7, 8}));
  EXPECT_EQ(tensor.samples(4, 4).elements(), 0);
  testing::expect_error(ExitCode::bug, {"samples 2 to 5"}, [&] { tensor.samples(2, 5); });
  testing::expect_error(ExitCode::bug, {"samples 3 to 2"}, [&] { tensor.samples(3, 2); });
  // In a blocked layout, a sample includes its padded lanes.
  const Tensor blocked = Tensor::empty(*device_, {3, 20, 2, 2}, {.layout = Layout::nchw16c});
  EXPECT_EQ(blocked.samples(1, 2).raw() - blocked.raw(), 32 * 4 * 4);
}

TEST_F(Tensors, GiveWindowsOfAFlatBuffer) {
  const Tensor flat = Tensor::from(*device_, {100}, counting(100));
  EXPECT_EQ(flat.window(10, {2, 2}, Layout::plain).values(), (std::vector<float>{10, 11, 12, 13}));
  EXPECT_NO_THROW(flat.window(98, {2}, Layout::plain));
  testing::expect_error(ExitCode::bug, {"a window of [3] at 98"}, [&] { flat.window(98, {3}, Layout::plain); });
  testing::expect_error(ExitCode::bug, {"a window"}, [&] { flat.window(-1, {3}, Layout::plain); });
  // 1 x 1 x 1 x 1 takes 256 elements in blocks of 16 x 16.
  testing::expect_error(ExitCode::bug, {"a window"}, [&] { flat.window(0, {1, 1, 1, 1}, Layout::oihw16i16o); });
}

TEST_F(Tensors, CopyBytesOfTheirOwnKindOnly) {
  const auto other_device = testing::test_device(1, 1, 1);
  const Tensor from = Tensor::from(*device_, {3}, counting(3));
  const Tensor to = Tensor::zeros(*other_device, {3});
  to.copy_from(from);
  EXPECT_EQ(to.values(), counting(3));
  testing::expect_error(ExitCode::bug, {"[3]", "[4]"}, [&] { Tensor::zeros(*device_, {4}).copy_from(from); });
  testing::expect_error(ExitCode::bug, {"i32"},
                        [&] { Tensor::empty(*device_, {3}, {.dtype = DType::i32}).copy_from(from); });
}

TEST_F(Tensors, AreReadAsTheirOwnTypeOnly) {
  const Tensor tensor = Tensor::zeros(*device_, {3});
  testing::expect_error(ExitCode::bug, {"f32 [3] plain on cpu:0 read as f64"}, [&] { tensor.data<double>(); });
  testing::expect_error(ExitCode::bug, {"values"}, [&] {
    Tensor::zeros(*device_, {1, 2, 1, 1}, {.layout = Layout::nhwc}).values();
  });
  testing::expect_error(ExitCode::bug, {"2 values for [3]"}, [&] { Tensor::from(*device_, {3}, counting(2)); });
}

}  // namespace
}  // namespace dptrain
