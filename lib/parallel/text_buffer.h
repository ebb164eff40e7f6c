#pragma once

#include <string>

#include "comm/communicator.h"

namespace dptrain::parallel {

/// A text's bytes as a buffer for a collective or a message.
inline CommBuffer text_buffer(std::string& text) {
  return {.data = text.data(), .elements = static_cast<int64_t>(text.size()), .dtype = DType::u8};
}

}  // namespace dptrain::parallel
