#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "device/cuda_probe.h"
#include "device/device.h"
#include "tensor/layout.h"

namespace dptrain::testing {

/// A device and a precision that every operator test runs on, by name. A new combination is a new row.
struct DeviceRow {
  std::string name;
  DeviceId device;
  /// How far a result may be from double precision, relative to the norm of its tensor.
  double tolerance;
  /// Layouts of images that its operators take.
  std::vector<Layout> image_layouts;

  /// Opens the row's device. Where this machine has no such device, the test is marked as skipped, with the reason, and
  /// the rest of the test runs on a CPU worker. (A fixture's test isn't run at all.)
  std::unique_ptr<Device> open(int threads = 2) const {
    const bool absent = device.kind == DeviceKind::cuda && cuda_devices().empty();
    if (absent) GTEST_MESSAGE_(("no row " + name + ": " + cuda_absence()).c_str(), ::testing::TestPartResult::kSkip);
    auto opened =
        open_device(absent ? DeviceId{DeviceKind::cpu, 0} : device, {.threads = threads, .deterministic = true});
    opened->enter_thread();
    return opened;
  }
};

inline const std::vector<DeviceRow>& device_rows() {
  static const std::vector<DeviceRow> rows = {
      {"cpu_f32", {DeviceKind::cpu, 0}, 5e-6, {Layout::plain, Layout::nhwc, Layout::nchw8c, Layout::nchw16c}},
      {"cuda_f32", {DeviceKind::cuda, 0}, 5e-6, {Layout::plain, Layout::nhwc}},
  };
  return rows;
}

inline std::ostream& operator<<(std::ostream& out, const DeviceRow& row) { return out << row.name; }

/// Names a test after its row.
struct RowName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return info.param.name;
  }
};

/// The row's layouts that a tensor of this shape can have: all of them for images, plain for anything else.
inline std::vector<Layout> layouts_of(const DeviceRow& row, const Shape& shape) {
  return shape.rank() == 4 ? row.image_layouts : std::vector<Layout>{Layout::plain};
}

}  // namespace dptrain::testing
