#pragma once

#include <initializer_list>
#include <string_view>

#include "base/clock.h"
#include "device/operator_log.h"
#include "device/timeline.h"
#include "device/with_cuda.h"
#include "tensor/tensor_form.h"

namespace dptrain::ops {

/// Returns the device of all defined tensors of a call. Throws 70, naming both devices, if two tensors are on different
/// ones: an operator never copies between devices by itself.
Device& common_device(std::string_view op, std::initializer_list<const Tensor*> tensors);
/// Like the above, but also checks the device of `form`.
Device& common_device(std::string_view op, const TensorForm& form, std::initializer_list<const Tensor*> tensors);

/// Declares that the next operator reads at most `rows` rows of this tensor's first dimension, each as a whole. Must be
/// called before common_device, which would otherwise count the whole tensor.
void reads_rows(const Tensor& tensor, int64_t rows);

/// Throws 71: the operator has no implementation for this kind of device.
[[noreturn]] void no_implementation(std::string_view op, const Device& device);

/// Logs an operator during its lifetime if the device has an operator log, and shows it on the device's timeline if it
/// has one.
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

/// Sets the number of floating-point operations of the operator that begins next; see OperatorCost.
inline void count_flops(const Device& device, double flops) {
  if (device.operator_log() != nullptr) device.operator_log()->multiplies(flops);
  if (device.timeline() != nullptr) device.timeline()->multiplies(flops);
}

/// Logs the algorithm that the innermost running operator uses.
inline void log_way(const Device& device, std::string_view way) {
  if (device.operator_log() != nullptr) device.operator_log()->goes_by(way);
  if (device.timeline() != nullptr) device.timeline()->goes_by(way);
}

/// Whether the device stands for a GPU and computes nothing. For operators whose results have a different layout on a
/// GPU.
inline bool is_logged_gpu(const Device& device) { return !device.computes() && device.kind() == DeviceKind::cuda; }

/// Calls the implementation for the device's kind, `on_cpu` or `on_cuda`, and returns its result. Without CUDA in the
/// build, `on_cuda` is never instantiated, so the functions that it names needn't exist.
template <class OnCpu, class OnCuda>
auto on_device(std::string_view op, Device& device, const OnCpu& on_cpu, const OnCuda& on_cuda) {
  const LoggedOperator logged(op, device);
  // A device that stands for a GPU also logs the operators that a CPU worker's implementation consists of.
  if (device.kind() == DeviceKind::cpu || !device.computes()) return on_cpu();
  if constexpr (kWithCuda) {
    if (device.kind() == DeviceKind::cuda) return on_cuda();
  }
  no_implementation(op, device);
}

/// Throws 70, naming the operator and both shapes, unless they are equal. All operators throw this way for tensors that
/// don't fit.
void require_shape(std::string_view op, std::string_view what, const Shape& got, const Shape& expected);

}  // namespace dptrain::ops
