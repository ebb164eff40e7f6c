#pragma once

#include <string_view>

#include "ops/batch_norm.h"

namespace dptrain::ops {

/// Returns the device of a batch norm's inputs. Throws 70, naming `op`, if their shapes don't fit.
Device& checked_inputs(std::string_view op, const BatchNormInputs& in);

/// Throws 70, naming `op`, unless both sinks are f32 [C] on the device of `in`.
void check_sinks(std::string_view op, const BatchNormInputs& in, const BatchNormSinks& sinks);

/// Finishes a backward pass without samples: both gradients are zero.
void finish_without_samples(const BatchNormSinks& sinks);

}  // namespace dptrain::ops
