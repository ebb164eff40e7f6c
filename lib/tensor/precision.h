#pragma once

#include "tensor/dtype.h"

namespace dptrain {

/// In what a model computes. Weights, their gradients, optimizer state, batch statistics and losses are f32 in all.
enum class Precision {
  fp32,  ///< true f32
  tf32,  ///< f32 in memory; products round their inputs to 10 bits of mantissa. GPUs alone
  bf16,  ///< activations and a copy of the weights with f32's range and 7 bits of mantissa
  fp16,  ///< the same with 10 bits of mantissa and a small range: losses are scaled. GPUs alone
};

/// As configurations name it.
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
