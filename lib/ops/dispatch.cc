#include "ops/dispatch.h"

#include <fmt/format.h>

#include "base/check.h"

namespace dptrain::ops {
namespace {

void require_same_device(std::string_view op, const Device& device, const Device& other) {
  if (&device != &other)
    throw Error(ExitCode::bug,
                fmt::format("{}: expected all tensors on one device, got {} and {}; copy one of them first", op,
                            device.name_with_rank(), other.name_with_rank()));
}

}  // namespace

Device& common_device(std::string_view op, std::initializer_list<const Tensor*> tensors) {
  Device* device = nullptr;
  for (const Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    if (device == nullptr) device = &tensor->device();
    require_same_device(op, *device, tensor->device());
    if (OperatorLog* log = device->operator_log(); log != nullptr)
      log->touches(tensor->raw(), tensor->bytes(), tensor->shape().text());
    if (Timeline* timeline = device->timeline(); timeline != nullptr && timeline->is_wanted())
      timeline->is_given(tensor->raw(), tensor->shape().text());
  }
  DPTRAIN_CHECK(device != nullptr, "{} without tensors", op);
  return *device;
}

Device& common_device(std::string_view op, const TensorForm& form, std::initializer_list<const Tensor*> tensors) {
  require_same_device(op, form.device, common_device(op, tensors));
  return form.device;
}

void reads_rows(const Tensor& tensor, int64_t rows) {
  OperatorLog* const log = tensor.device().operator_log();
  if (log == nullptr || rows >= tensor.shape()[0]) return;
  log->touches(tensor.raw(), tensor.bytes() / tensor.shape()[0] * rows, tensor.shape().text());
}

void LoggedOperator::begin(std::string_view op) {
  number_ = device_.operator_log()->begin(op);
  held_bytes_ = device_.allocator().in_use().total_bytes();
  if (!device_.computes()) return;
  device_.synchronize();
  begun_ = Clock::now();
}

void LoggedOperator::end() {
  try {
    if (device_.computes()) device_.synchronize();
  } catch (const Error&) {
    // The device is broken; its next call says so.
  }
  device_.operator_log()->end(number_, held_bytes_, device_.allocator().in_use().total_bytes(),
                              device_.computes() ? seconds_since(begun_) : 0);
}

void no_implementation(std::string_view op, const Device& device) {
  throw Error(ExitCode::device, fmt::format("{} has no implementation for {}; use a CPU worker", op, device.name()));
}

void require_shape(std::string_view op, std::string_view what, const Shape& got, const Shape& expected) {
  DPTRAIN_CHECK(got == expected, "{}: {} of {}, expected {}", op, what, got.text(), expected.text());
}

}  // namespace dptrain::ops
