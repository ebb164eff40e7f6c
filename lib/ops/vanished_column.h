#pragma once

namespace dptrain::ops {

/// Whether of a column nothing but rounding is left: sums of squares, before other columns were taken out of it and
/// after.
constexpr bool has_vanished(double before, double after) { return after <= 1e-12 * before; }

}  // namespace dptrain::ops
