#pragma once

#include <initializer_list>
#include <string_view>

#include "base/clock.h"
#include "device/operator_log.h"
#include "device/timeline.h"
#include "device/with_cuda.h"
#include "tensor/tensor_form.h"

namespace dptrain::ops {

/// The device that all defined tensors of a call lie on. Throws 70, naming both, where two lie on different ones: an
/// operator never copies between devices by itself.
Device& common_device(std::string_view op, std::initializer_list<const Tensor*> tensors);
/// The same with a form, whose tensor lay there.
Device& common_device(std::string_view op, const TensorForm& form, std::initializer_list<const Tensor*> tensors);

/// Of this tensor the operator that begins next reads no more than so many rows: of its first dimension, each whole.
/// Called before common_device, which would count all of it.
void reads_rows(const Tensor& tensor, int64_t rows);

/// Throws 71: the operator has no implementation for this kind of device.
[[noreturn]] void no_implementation(std::string_view op, const Device& device);

/// Logs an operator, as long as it lives, on a device that has a log, and shows it on one that has a timeline.
class LoggedOperator {
 public:
  LoggedOperator(std::string_view op, Device& device) : device_(device) {
    if (device.operator_log() != nullptr) begin(op);
    if (device.timeline() != nullptr) span_ = device.timeline()->begin(op);
  }
  ~LoggedOperator() {
    if (span_ != Timeline::kNone) device_.timeline()->end(span_, device_.allocator().in_use().total_bytes());
    if (device_.operator_log() != nullptr) end();
  }
  LoggedOperator(const LoggedOperator&) = delete;
  LoggedOperator& operator=(const LoggedOperator&) = delete;

 private:
  void begin(std::string_view op);
  void end();

  Device& device_;
  size_t number_ = 0;
  int64_t held_bytes_ = 0;
  int64_t span_ = Timeline::kNone;
  Clock::time_point begun_;
};

/// What the operator that begins next multiplies and adds; see OperatorCost.
inline void count_flops(const Device& device, double flops) {
  if (device.operator_log() != nullptr) device.operator_log()->multiplies(flops);
  if (device.timeline() != nullptr) device.timeline()->multiplies(flops);
}

/// By which algorithm the innermost operator that has begun is done.
inline void log_way(const Device& device, std::string_view way) {
  if (device.operator_log() != nullptr) device.operator_log()->goes_by(way);
  if (device.timeline() != nullptr) device.timeline()->goes_by(way);
}

/// Whether it stands for a GPU and computes nothing: for operators whose results lie otherwise there.
inline bool is_logged_gpu(const Device& device) { return !device.computes() && device.kind() == DeviceKind::cuda; }

/// The implementation for the device's kind: what `on_cpu` or `on_cuda` returns. Without CUDA in the build the second
/// is not called anywhere, so that what it names needn't exist.
template <class OnCpu, class OnCuda>
auto on_device(std::string_view op, Device& device, const OnCpu& on_cpu, const OnCuda& on_cuda) {
  const LoggedOperator logged(op, device);
  // One that stands for a GPU logs what a CPU worker's implementation is made of, too.
  if (device.kind() == DeviceKind::cpu || !device.computes()) return on_cpu();
  if constexpr (kWithCuda) {
    if (device.kind() == DeviceKind::cuda) return on_cuda();
  }
  no_implementation(op, device);
}

/// Throws 70, naming operator and both shapes, unless they are equal. So do all operators, for tensors that don't fit.
void require_shape(std::string_view op, std::string_view what, const Shape& got, const Shape& expected);

}  // namespace dptrain::ops
