#pragma once

#include <string_view>

#include "ops/batch_norm.h"

namespace dptrain::ops {

/// The device of a batch norm's inputs. Throws 70, naming `op`, where they don't fit each other.
Device& checked_inputs(std::string_view op, const BatchNormInputs& in);

}  // namespace dptrain::ops
