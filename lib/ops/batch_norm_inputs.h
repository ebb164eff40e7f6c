#pragma once

#include <string_view>

#include "ops/batch_norm.h"

namespace dptrain::ops {

/// The device of a batch norm's inputs. Throws 70, naming `op`, where they don't fit each other.
Device& checked_inputs(std::string_view op, const BatchNormInputs& in);

/// Throws 70, naming `op`, unless both sinks are f32 a channel on the device of `in`.
void check_sinks(std::string_view op, const BatchNormInputs& in, const BatchNormSinks& sinks);

/// Without samples both gradients are zero.
void finish_without_samples(const BatchNormSinks& sinks);

}  // namespace dptrain::ops
