#include "nn/initializer.h"

#include <algorithm>
#include <cmath>

namespace dptrain::nn {
namespace {

int64_t fan_in_of(const Shape& shape) { return shape.elements() / shape[0]; }

int64_t fan_out_of(const Shape& shape) { return shape.rank() < 2 ? shape[0] : shape.elements() / shape[1]; }

std::vector<float> normal_values(double deviation, const Shape& shape, const KeyedRandom& random) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(deviation * random.normal(i));
  return values;
}

/// Draws values cut off at two deviations of the underlying distribution; `deviation` is that of the values drawn.
std::vector<float> truncated_normal_values(double deviation, const Shape& shape, const KeyedRandom& random) {
  constexpr double kMost = 2;
  // The deviation of a standard normal distribution that is cut off at -2 and 2.
  constexpr double kLeft = 0.87962566103423978;
  // Repeated draws use counters beyond the elements of every tensor.
  constexpr uint64_t kNextDraw = uint64_t{1} << 40;
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t at = i;
    double drawn = random.normal(at);
    while (std::abs(drawn) > kMost) drawn = random.normal(at += kNextDraw);
    values[i] = static_cast<float>(deviation / kLeft * drawn);
  }
  return values;
}

std::vector<float> uniform_values(double bound, const Shape& shape, const KeyedRandom& random) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(bound * (2.0 * random.uniform(i) - 1.0));
  return values;
}

}  // namespace

Initializer Initializer::by_fan_in(int64_t fan_in) { return uniform(1.0 / std::sqrt(static_cast<double>(fan_in))); }

std::vector<float> initial_values(const Initializer& initializer, const Shape& shape, const KeyedRandom& random) {
  switch (initializer.kind) {
    case Initializer::Kind::constant: break;
    case Initializer::Kind::normal: return normal_values(initializer.value, shape, random);
    case Initializer::Kind::embedding: {
      std::vector<float> values = normal_values(initializer.value, shape, random);
      std::fill_n(values.begin(), fan_in_of(shape), 0.f);
      return values;
    }
    case Initializer::Kind::uniform: return uniform_values(initializer.value, shape, random);
    case Initializer::Kind::kaiming_normal:
      return normal_values(std::sqrt(2.0 / static_cast<double>(fan_out_of(shape))), shape, random);
    case Initializer::Kind::xavier_uniform:
      return uniform_values(std::sqrt(6.0 / static_cast<double>(fan_in_of(shape) + fan_out_of(shape))), shape, random);
    case Initializer::Kind::lecun_normal:
      return truncated_normal_values(std::sqrt(1.0 / static_cast<double>(fan_in_of(shape))), shape, random);
  }
  return std::vector<float>(static_cast<size_t>(shape.elements()), static_cast<float>(initializer.value));
}

}  // namespace dptrain::nn
