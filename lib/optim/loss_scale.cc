#include "optim/loss_scale.h"

#include <array>
#include <cstring>

namespace dptrain::optim {

LossScale::LossScale(Device& device)
    : block_(Tensor::empty(device, {24}, {.dtype = DType::u8, .purpose = MemoryPurpose::optimizer})) {
  constexpr float kBegin = 65536;
  std::array<std::byte, 24> begin{};
  const float inverse = 1 / kBegin;
  std::memcpy(begin.data(), &kBegin, sizeof kBegin);
  std::memcpy(begin.data() + 4, &inverse, sizeof inverse);
  device.upload(block_.raw(), begin.data(), block_.bytes());
  state_ = {.scale = block_.part(0, DType::f32, {1}),
            .inverse = block_.part(4, DType::f32, {1}),
            .found = block_.part(8, DType::i32, {1}),
            .good = block_.part(12, DType::i32, {1}),
            .skipped = block_.part(16, DType::i64, {1})};
}

int64_t LossScale::skipped() const {
  int64_t count = 0;
  block_.device().download(&count, state_.skipped.data<int64_t>(), sizeof count);
  return count;
}

}  // namespace dptrain::optim
