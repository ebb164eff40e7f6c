#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/bfloat16.h"

namespace dptrain {

/// An element type. Only GPUs compute with f16.
enum class DType : uint8_t { f32, f64, bf16, f16, i32, i64, u8 };

int64_t dtype_bytes(DType dtype);
/// The name in messages and collectives, such as "f32".
std::string_view dtype_name(DType dtype);

template <class T>
constexpr DType dtype_of() = delete;
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<Bfloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}

}  // namespace dptrain
