#include "device/device_id.h"

#include <fmt/format.h>

namespace dptrain {

std::string DeviceId::name() const {
  switch (kind) {
    case DeviceKind::cpu: return fmt::format("cpu:{}", index);
    case DeviceKind::cuda: return fmt::format("cuda:{}", index);
  }
  return {};
}

}  // namespace dptrain
