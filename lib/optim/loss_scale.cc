#include "optim/loss_scale.h"

#include <cstring>

namespace dptrain::optim {
namespace {

/// The memory layout of the block.
struct Block {
  float scale;
  float inverse;
  int32_t found;
  int32_t good;
  int64_t skipped;
};
static_assert(sizeof(Block) == 24);

}  // namespace

LossScale::LossScale(Device& device)
    : block_(Tensor::empty(device, {sizeof(Block)}, {.dtype = DType::u8, .purpose = MemoryPurpose::optimizer})) {
  state_ = {.scale = block_.part(offsetof(Block, scale), DType::f32, {1}),
            .inverse = block_.part(offsetof(Block, inverse), DType::f32, {1}),
            .found = block_.part(offsetof(Block, found), DType::i32, {1}),
            .good = block_.part(offsetof(Block, good), DType::i32, {1}),
            .skipped = block_.part(offsetof(Block, skipped), DType::i64, {1})};
  set({});
}

LossScaleNumbers LossScale::numbers() const {
  Block block{};
  block_.device().download(&block, block_.raw(), sizeof block);
  return {.scale = block.scale, .good = block.good, .skipped = block.skipped};
}

LossScale::Moment LossScale::moment() const {
  Block block{};
  block_.device().download(&block, block_.raw(), sizeof block);
  return {.inverse = block.inverse, .overflows = block.found != 0, .skipped = block.skipped};
}

void LossScale::set(const LossScaleNumbers& numbers) {
  const Block block{.scale = numbers.scale,
                    .inverse = 1 / numbers.scale,
                    .found = 0,
                    .good = numbers.good,
                    .skipped = numbers.skipped};
  block_.device().upload(block_.raw(), &block, sizeof block);
}

}  // namespace dptrain::optim
