#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

namespace dptrain::testing {

/// A CPU worker for a test, entered by the calling thread.
inline std::unique_ptr<Device> test_device(int threads = 2, int index = 0, int rank = 0) {
  auto device = open_device({DeviceKind::cpu, index}, {.rank = rank, .threads = threads});
  device->enter_thread();
  return device;
}

inline Tensor labels_on(Device& device, const std::vector<int32_t>& labels) {
  Tensor tensor = Tensor::empty(device, {static_cast<int64_t>(labels.size())}, {.dtype = DType::i32});
  device.upload(tensor.raw(), labels.data(), tensor.bytes());
  return tensor;
}

/// The keys of a step's random draws: sample numbers [begin, end), and the epoch.
inline Tensor sample_ids_on(Device& device, int64_t begin, int64_t end) {
  std::vector<int64_t> ids;
  for (int64_t id = begin; id < end; ++id) ids.push_back(id);
  Tensor tensor = Tensor::empty(device, {end - begin}, {.dtype = DType::i64});
  device.upload(tensor.raw(), ids.data(), tensor.bytes());
  return tensor;
}
inline Tensor epoch_on(Device& device, int32_t epoch) { return labels_on(device, {epoch}); }

/// The values of an integer tensor, on the host.
inline std::vector<int32_t> integers_of(const Tensor& tensor) {
  std::vector<int32_t> values(static_cast<size_t>(tensor.elements()));
  tensor.device().download(values.data(), tensor.data<int32_t>(), tensor.bytes());
  return values;
}

}  // namespace dptrain::testing
