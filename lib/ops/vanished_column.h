#pragma once

namespace dptrain::ops {

/// Whether only rounding errors are left of a column, from its sum of squares before and after other columns were
/// subtracted from it.
constexpr bool has_vanished(double before, double after) { return after <= 1e-12 * before; }

}  // namespace dptrain::ops
