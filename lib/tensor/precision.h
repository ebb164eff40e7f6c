#pragma once

#include "tensor/dtype.h"

namespace dptrain {

/// The number formats that a model computes in. Weights, their gradients, optimizer state, batch statistics and losses
/// are always f32.
enum class Precision {
  fp32,  ///< true f32
  tf32,  ///< f32 in memory; products round their inputs to 10 bits of mantissa. GPUs only
  bf16,  ///< activations and a copy of the weights with f32's range and 7 bits of mantissa
  fp16,  ///< as bf16, with 10 bits of mantissa and a small range: losses are scaled. GPUs only
};

/// The name in configs.
constexpr const char* precision_name(Precision precision) {
  switch (precision) {
    case Precision::tf32: return "tf32";
    case Precision::bf16: return "bf16";
    case Precision::fp16: return "fp16";
    default: return "fp32";
  }
}

/// The element type of activations.
constexpr DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::bf16: return DType::bf16;
    case Precision::fp16: return DType::f16;
    default: return DType::f32;
  }
}

}  // namespace dptrain
