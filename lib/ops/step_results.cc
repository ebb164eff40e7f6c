#include "ops/step_results.h"

#include <cstring>

#include "ops/dispatch.h"
#include "ops/step_results_cuda.h"

namespace dptrain::ops {

void stamp_time(const Tensor& stamps, int64_t at) {
  on_device(
      "stamp_time", stamps.device(), [] {}, [&] { cuda::stamp_time(stamps, at); });
}

void add_lap(const Tensor& laps, int64_t at) {
  on_device(
      "add_lap", laps.device(), [] {}, [&] { cuda::add_lap(laps, at); });
}

void publish(const Tensor& bytes, const Tensor& address) {
  Device& device = common_device("publish", {&bytes, &address});
  on_device(
      "publish", device,
      [&] {
        if (!device.computes()) return;
        void* to = nullptr;
        std::memcpy(&to, address.data<int64_t>(), sizeof to);
        std::memcpy(to, bytes.data<uint8_t>(), static_cast<size_t>(bytes.bytes()));
      },
      [&] { cuda::publish(bytes, address); });
}

}  // namespace dptrain::ops
