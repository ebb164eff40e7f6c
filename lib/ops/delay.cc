#include "ops/delay.h"

#include <chrono>
#include <thread>

#include "ops/delay_cuda.h"
#include "ops/dispatch.h"

namespace dptrain::ops {

void delay(const Tensor& nanoseconds) {
  Device& device = nanoseconds.device();
  on_device(
      "delay", device,
      [&] {
        if (device.computes()) std::this_thread::sleep_for(std::chrono::nanoseconds(*nanoseconds.data<int64_t>()));
      },
      [&] { cuda::delay(nanoseconds); });
}

}  // namespace dptrain::ops
