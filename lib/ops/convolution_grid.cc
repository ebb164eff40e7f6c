#include "ops/convolution_grid.h"

#include <algorithm>

namespace dptrain::ops {
namespace {

/// Taps and outputs along one axis of an image, rows or columns.
struct AxisTap {
  int64_t weight, phase, shift;
};
struct AxisOutputs {
  int64_t first, count;
  std::vector<AxisTap> taps;
};

/// Output i reads pixel stride * i + u - padding, which is pixel i + shift of its phase.
std::vector<AxisOutputs> forward_axis(int64_t window, int64_t outputs, const Conv2dOptions& options) {
  AxisOutputs axis{.first = 0, .count = outputs, .taps = {}};
  for (int64_t u = 0; u < window; ++u) {
    const int64_t distance = u - options.padding;
    const int64_t phase = (distance % options.stride + options.stride) % options.stride;
    axis.taps.push_back({.weight = u, .phase = phase, .shift = (distance - phase) / options.stride});
  }
  return {axis};
}

/// Pixel stride * i + first of x is read by output i + (first + padding - u) / stride if that quotient is a whole
/// number.
std::vector<AxisOutputs> backward_axis(int64_t window, int64_t pixels, const Conv2dOptions& options) {
  std::vector<AxisOutputs> axes;
  for (int64_t first = 0; first < std::min(options.stride, pixels); ++first) {
    AxisOutputs axis{.first = first, .count = (pixels - first + options.stride - 1) / options.stride, .taps = {}};
    for (int64_t u = 0; u < window; ++u)
      if (const int64_t distance = first + options.padding - u; distance % options.stride == 0)
        axis.taps.push_back({.weight = u, .phase = 0, .shift = distance / options.stride});
    axes.push_back(axis);
  }
  return axes;
}

/// How far taps reach before and after an output's own place, and the size along an axis of pixels and zeros together.
struct Room {
  Room(const std::vector<AxisOutputs>& axes, int64_t pixels) {
    int64_t outputs = 0;
    for (const AxisOutputs& axis : axes) {
      outputs = std::max(outputs, axis.count);
      for (const AxisTap& tap : axis.taps) {
        before = std::max(before, -tap.shift);
        after = std::max(after, tap.shift);
      }
    }
    size = std::max(outputs + after, pixels + before);
  }
  int64_t before = 0, after = 0, size = 0;
};

int64_t index_of(std::vector<ConvolutionGrid::Phase>& phases, int64_t row, int64_t column) {
  const auto found =
      std::ranges::find_if(phases, [&](const auto& phase) { return phase.row == row && phase.column == column; });
  const int64_t index = found - phases.begin();
  if (found == phases.end()) phases.push_back({row, column});
  return index;
}

/// The source's stride, and the pixels along each axis of its largest phase.
struct Source {
  int64_t stride, rows, columns;
};

ConvolutionGrid grid_of(const std::vector<AxisOutputs>& rows, const std::vector<AxisOutputs>& columns,
                        int64_t window_columns, const Source& source, int64_t output_stride) {
  const Room down(rows, source.rows), along(columns, source.columns);
  ConvolutionGrid grid{.stride = source.stride,
                       .phases = {},
                       .outputs = {},
                       .rows = down.size,
                       .columns = along.size,
                       .lead = down.before * along.size + along.before,
                       .reach = (down.before + down.after) * along.size + along.before + along.after};
  for (const AxisOutputs& row : rows)
    for (const AxisOutputs& column : columns) {
      ConvolutionGrid::Outputs outputs{.stride = output_stride,
                                       .row = row.first,
                                       .column = column.first,
                                       .height = row.count,
                                       .width = column.count,
                                       .taps = {}};
      for (const AxisTap& u : row.taps)
        for (const AxisTap& v : column.taps)
          outputs.taps.push_back({.weight = u.weight * window_columns + v.weight,
                                  .phase = index_of(grid.phases, u.phase, v.phase),
                                  .offset = grid.lead + u.shift * along.size + v.shift});
      grid.outputs.push_back(outputs);
    }
  return grid;
}

}  // namespace

ConvolutionGrid forward_grid(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options) {
  const auto largest_phase = [&](int64_t pixels) { return (pixels + options.stride - 1) / options.stride; };
  return grid_of(forward_axis(weight[2], y[2], options), forward_axis(weight[3], y[3], options), weight[3],
                 {.stride = options.stride, .rows = largest_phase(x[2]), .columns = largest_phase(x[3])}, 1);
}

ConvolutionGrid backward_data_grid(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options) {
  return grid_of(backward_axis(weight[2], x[2], options), backward_axis(weight[3], x[3], options), weight[3],
                 {.stride = 1, .rows = y[2], .columns = y[3]}, options.stride);
}

}  // namespace dptrain::ops
