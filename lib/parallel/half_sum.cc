#include "parallel/half_sum.h"

#include "ops/reorder.h"
#include "ops/scaled_half.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {

HalfSum::HalfSum(Communicator& communicator, const Tensor& gradients, DType format, int priority)
    : communicator_(communicator),
      priority_(priority),
      gradients_(gradients),
      halves_(Tensor::empty(gradients.device(), gradients.shape(),
                            {.dtype = format, .purpose = MemoryPurpose::communication})) {
  if (format == DType::f16) bound_ = Tensor::empty(gradients.device(), {1}, {.purpose = MemoryPurpose::communication});
  if (!gradients.device().can_record()) return;
  // Runs the conversions once, so that a GPU loads their kernels now. Loading may wait for all work of the GPU, and
  // later some of that work waits for other ranks.
  gradients_.fill_zero();
  if (bound_.defined()) bound_.copy_from(ops::largest_magnitude(gradients_));
  convert_to_halves();
  convert_to_gradients();
}

void HalfSum::convert_to_halves() {
  if (bound_.defined())
    ops::scale_to_f16(gradients_, bound_, halves_);
  else
    ops::reorder_into(gradients_, halves_);
}

void HalfSum::convert_to_gradients() {
  if (bound_.defined())
    ops::scale_from_f16(halves_, bound_, gradients_);
  else
    ops::reorder_into(halves_, gradients_);
}

void HalfSum::start() {
  if (!bound_.defined()) return start_sum();
  bound_.copy_from(ops::largest_magnitude(gradients_));
  bounding_ = communicator_.start_prioritized_all_reduce(comm_buffer(bound_), priority_);
}

void HalfSum::go_on() {
  if (bounding_ == nullptr) return;
  bounding_->wait();
  bounding_.reset();
  start_sum();
}

void HalfSum::start_sum() {
  convert_to_halves();
  summing_ = communicator_.start_prioritized_all_reduce(comm_buffer(halves_), priority_);
}

void HalfSum::finish() {
  go_on();
  summing_->wait();
  summing_.reset();
  convert_to_gradients();
}

}  // namespace dptrain::parallel
