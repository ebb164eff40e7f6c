#include "parallel/stage_link.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "ops/reorder.h"
#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {
namespace {

/// A form as it is sent: whether a gradient comes back, element type, layout, rank, dimensions.
constexpr int64_t kFormNumbers = 4 + Shape::kMaxRank;
using FormNumbers = std::array<int64_t, kFormNumbers>;

Tensor form_block(Device& device) {
  return Tensor::empty(device, {kFormNumbers}, {.dtype = DType::i64, .purpose = MemoryPurpose::communication});
}

/// Messages on their way, with the tensors that they are read from.
class Sending final : public CommWork {
 public:
  void add(Communicator& messages, int peer, Tensor tensor) {
    tensors_.push_back(std::move(tensor));
    works_.push_back(messages.start_send(comm_buffer(tensors_.back()), peer));
  }
  void wait() override {
    for (const auto& work : works_) work->wait();
    works_.clear();
    tensors_.clear();
  }

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::unique_ptr<CommWork>> works_;  ///< end before what they read
};

}  // namespace

std::unique_ptr<CommWork> StageLink::start_send(const Signature& signature, const Crossing& crossing) {
  auto sending = std::make_unique<Sending>();
  const Tensor value = plain_ ? ops::reorder(crossing.value, Layout::plain) : crossing.value;
  if (told_.insert(signature).second) {
    FormNumbers numbers{crossing.requires_gradient, static_cast<int64_t>(value.dtype()),
                        static_cast<int64_t>(value.layout()), value.shape().rank()};
    std::ranges::copy(value.shape().dimensions(), numbers.begin() + 4);
    Tensor block = form_block(device_);
    device_.upload(block.raw(), numbers.data(), block.bytes());
    sending->add(messages_, peer_, std::move(block));
  }
  sending->add(messages_, peer_, value);
  return sending;
}

StageLink::Form StageLink::receive_form() {
  const Tensor block = form_block(device_);
  messages_.receive(comm_buffer(block), peer_);
  FormNumbers numbers{};
  device_.download(numbers.data(), block.raw(), block.bytes());
  return {.shape = Shape(std::span<const int64_t>(numbers).subspan(4, static_cast<size_t>(numbers[3]))),
          .dtype = static_cast<DType>(numbers[1]),
          .layout = static_cast<Layout>(numbers[2]),
          .requires_gradient = numbers[0] != 0};
}

StageLink::Crossing StageLink::receive(const Signature& signature) {
  const auto known = known_.find(signature);
  const Form& form = known != known_.end() ? known->second : known_.emplace(signature, receive_form()).first->second;
  Tensor value = Tensor::empty(device_, form.shape, {.dtype = form.dtype, .layout = form.layout});
  messages_.receive(comm_buffer(value), peer_);
  return {.value = std::move(value), .requires_gradient = form.requires_gradient};
}

}  // namespace dptrain::parallel
