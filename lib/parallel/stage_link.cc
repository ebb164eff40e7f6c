#include "parallel/stage_link.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "ops/reorder.h"
#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {
namespace {

/// A form as a message: whether a gradient comes back, element type, layout, rank, dimensions.
constexpr int64_t kFormNumbers = 4 + Shape::kMaxRank;
using FormNumbers = std::array<int64_t, kFormNumbers>;

CommBuffer form_buffer(FormNumbers& numbers) {
  return {.data = numbers.data(), .elements = kFormNumbers, .dtype = DType::i64};
}

/// Messages that are being sent, with the memory that they are read from.
class Sending final : public CommWork {
 public:
  void add_form(Communicator& forms, int peer, const FormNumbers& numbers) {
    form_ = numbers;
    works_.push_back(forms.start_send(form_buffer(form_), peer));
  }
  void add_value(Communicator& tensors, int peer, Tensor value) {
    hold(std::move(value));
    works_.push_back(tensors.start_send(comm_buffer(value_), peer));
  }
  void hold(Tensor value) { value_ = std::move(value); }
  void wait() override {
    for (const auto& work : works_) work->wait();
    works_.clear();
    value_ = {};
  }

 private:
  FormNumbers form_{};
  Tensor value_;
  std::vector<std::unique_ptr<CommWork>> works_;  ///< ends before the memory that it reads
};

}  // namespace

std::unique_ptr<CommWork> StageLink::start_send(const Signature& signature, const Crossing& crossing) {
  auto sending = std::make_unique<Sending>();
  if (rehearses_) {
    sending->hold(crossing.value);
    return sending;
  }
  const Tensor value = plain_ ? ops::reorder(crossing.value, Layout::plain) : crossing.value;
  if (told_.insert(signature).second) {
    FormNumbers numbers{crossing.requires_gradient, static_cast<int64_t>(value.dtype()),
                        static_cast<int64_t>(value.layout()), value.shape().rank()};
    std::ranges::copy(value.shape().dimensions(), numbers.begin() + 4);
    sending->add_form(ends_.forms, peer_, numbers);
  }
  sending->add_value(ends_.tensors, peer_, value);
  return sending;
}

StageLink::Form StageLink::receive_form() {
  FormNumbers numbers{};
  ends_.forms.receive(form_buffer(numbers), peer_);
  return {.shape = Shape(std::span<const int64_t>(numbers).subspan(4, static_cast<size_t>(numbers[3]))),
          .dtype = static_cast<DType>(numbers[1]),
          .layout = static_cast<Layout>(numbers[2]),
          .requires_gradient = numbers[0] != 0};
}

StageLink::Expected StageLink::start_receive(const Signature& signature, const Form& form, const Tensor& place) {
  const bool fits =
      !place.defined() || (place.shape() == form.shape && place.dtype() == form.dtype && place.layout() == form.layout);
  DPTRAIN_CHECK(fits, "a tensor of {} is to come into {}", form.shape.text(), place.text());
  Tensor value =
      place.defined() ? place : Tensor::empty(device_, form.shape, {.dtype = form.dtype, .layout = form.layout});
  auto work = rehearses_ ? nullptr : ends_.tensors.start_receive(comm_buffer(value), peer_);
  return {.signature = signature,
          .crossing = {.value = std::move(value), .requires_gradient = form.requires_gradient},
          .work = std::move(work)};
}

bool StageLink::expect(const Signature& signature, const Tensor& place) {
  const auto known = known_.find(signature);
  if (known == known_.end()) return false;
  expected_.push_back(start_receive(signature, known->second, place));
  return true;
}

StageLink::Crossing StageLink::receive(const Signature& signature, const Tensor& place) {
  if (expected_.empty()) {
    auto known = known_.find(signature);
    DPTRAIN_CHECK(known != known_.end() || !rehearses_, "a tensor is rehearsed whose form isn't known");
    if (known == known_.end()) known = known_.emplace(signature, receive_form()).first;
    expected_.push_back(start_receive(signature, known->second, place));
  }
  Expected expected = std::move(expected_.front());
  expected_.pop_front();
  DPTRAIN_CHECK(expected.signature == signature, "another tensor is received than was expected");
  if (expected.work != nullptr) expected.work->wait();
  return std::move(expected.crossing);
}

}  // namespace dptrain::parallel
