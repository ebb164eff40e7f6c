#pragma once

#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// A tensor's memory as a collective sees it.
inline CommBuffer comm_buffer(const Tensor& tensor) {
  return {.data = tensor.raw(), .elements = tensor.storage_elements(), .dtype = tensor.dtype()};
}

}  // namespace dptrain::parallel
