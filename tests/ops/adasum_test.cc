// Adasum against its paper's formula in double precision.
#include "ops/adasum.h"

#include <cmath>
#include <limits>

#include "ops/square_digits.h"
#include "ops/tensor_squares.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"

namespace dptrain {
namespace adasum_test {

using namespace testing;

/// Tensors shorter and longer than a chunk.
const std::vector<ops::TensorRun> kTensors = {
    {.tensor = 0, .elements = 48}, {.tensor = 1, .elements = 20'000}, {.tensor = 2, .elements = 16}};
constexpr int64_t kElements = 48 + 20'000 + 16;
constexpr size_t kSecondTensor = 48, kThirdTensor = 48 + 20'000;

using Values = std::vector<float>;

std::vector<double> adasum_of(const Values& a, const Values& b) {
  std::vector<double> result(a.size());
  size_t begin = 0;
  for (const ops::TensorRun& run : kTensors) {
    const size_t end = begin + static_cast<size_t>(run.elements);
    double aa = 0, bb = 0, ab = 0;
    for (size_t i = begin; i < end; ++i) {
      aa += double{a[i]} * a[i];
      bb += double{b[i]} * b[i];
      ab += double{a[i]} * b[i];
    }
    const double of_a = aa > 0 ? 1 - ab / (2 * aa) : 1, of_b = bb > 0 ? 1 - ab / (2 * bb) : 1;
    for (size_t i = begin; i < end; ++i) result[i] = of_a * a[i] + of_b * b[i];
    begin = end;
  }
  return result;
}

/// The buffers as `parts` devices have them, each an equal part of all elements.
Values added(Device& device, const Values& a, const Values& b, int64_t parts = 1) {
  struct Part {
    Tensor first, second;
    ops::TensorTable table;
  };
  std::vector<Part> all;
  const auto tensors = std::ssize(kTensors);
  const Tensor norms = ops::no_tensor_squares(device, tensors), squares = ops::no_tensor_squares(device, tensors);
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t begin = kElements / 16 * p / parts * 16, end = kElements / 16 * (p + 1) / parts * 16;
    std::vector<ops::TensorRun> runs;
    int64_t at = 0;
    for (ops::TensorRun run : kTensors) {
      const int64_t first = std::max(at, begin), last = std::min(at += run.elements, end);
      run.elements = last - first;
      if (run.elements > 0) runs.push_back(run);
    }
    const auto part_of = [&](const Values& values) {
      return tensor_of(device, {end - begin}, Values(values.begin() + begin, values.begin() + end));
    };
    all.push_back({part_of(a), part_of(b), ops::make_tensor_table(device, runs, tensors)});
  }
  for (const Part& part : all) ops::tensor_squares(part.first, part.second, part.table, norms);
  for (const Part& part : all) ops::adasum_squares(part.first, part.second, part.table, norms, squares);
  Values result;
  for (const Part& part : all) {
    ops::adasum(part.first, part.second, part.table, norms, squares);
    const Values values = part.first.values();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

/// Values whose tensors point in any direction.
Values any(uint64_t number, double scale = 1) {
  return Formula{.tensor = number, .centre = 0.1 * scale, .scale = scale}.values(kElements);
}

void expect_near(const Values& got, const std::vector<double>& right, double tolerance) {
  size_t begin = 0;
  for (const ops::TensorRun& run : kTensors) {
    const size_t end = begin + static_cast<size_t>(run.elements);
    double off = 0, norm = 0;
    for (size_t i = begin; i < end; ++i) {
      off += std::pow(got[i] - right[i], 2);
      norm += right[i] * right[i];
    }
    EXPECT_LE(std::sqrt(off), tolerance * std::sqrt(norm)) << "tensor " << run.tensor;
    begin = end;
  }
}

class Adasum : public ::testing::TestWithParam<DeviceRow> {};

/// The lengths may be far apart, where a sum of both would show nothing of the shorter one.
TEST_P(Adasum, IsThatOfThePaper) {
  const auto device = GetParam().open();
  for (const double length : {1.0, 3e-3, 1e-6, 1e-12, 1e5, 1e15}) {
    SCOPED_TRACE(length);
    const Values a = any(1), b = any(2, length);
    expect_near(added(*device, a, b), adasum_of(a, b), 1e-6);
  }
}

/// What the shorter one adds in its own direction is right, too: its factor is 1 - ab / (2 bb), which may be large.
TEST_P(Adasum, OfParallelMovementsIsTheMean) {
  const auto device = GetParam().open();
  for (const float length : {1.f, 0.25f, -2.f, 1e-6f, 3e9f}) {
    SCOPED_TRACE(length);
    const Values a = any(1);
    Values b = a;
    for (float& value : b) value *= length;
    std::vector<double> mean(a.size());
    for (size_t i = 0; i < a.size(); ++i) mean[i] = (double{a[i]} + b[i]) / 2;
    expect_near(added(*device, a, b), mean, 1e-6);
  }
  EXPECT_EQ(added(*device, any(1), any(1)), any(1));
}

TEST_P(Adasum, OfOrthogonalMovementsIsTheirSum) {
  const auto device = GetParam().open();
  Values a = any(1), b = any(2), sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    (i % 2 == 0 ? a : b)[i] = 0;
    sum[i] = a[i] + b[i];
  }
  EXPECT_EQ(added(*device, a, b), sum);
}

/// A device without samples hasn't moved.
TEST_P(Adasum, OfNoMovementIsTheOther) {
  const auto device = GetParam().open();
  const Values a = any(1), none(a.size());
  EXPECT_EQ(added(*device, a, none), a);
  EXPECT_EQ(added(*device, none, a), a);
  EXPECT_EQ(added(*device, none, none), none);
}

TEST_P(Adasum, ToTheLimitsOfF32IsFinite) {
  const auto device = GetParam().open();
  for (const float small : {1e-44f, 1e-38f, 1e-30f})
    for (const float large : {1e-30f, 1.f, 1e18f, 1e36f}) {
      const Values a(kElements, large), b(kElements, small);
      const std::vector<double> mean(kElements, (double{large} + small) / 2);
      const std::vector<double> sum(kElements, double{large} + small);
      // Beside a movement 2^100 times as long, the short one has no direction.
      expect_near(added(*device, a, b), large / small < 0x1p100 ? mean : sum, 1e-6);
      expect_near(added(*device, b, a), large / small < 0x1p100 ? mean : sum, 1e-6);
    }
}

TEST_P(Adasum, OfWhatIsNoNumberIsNoneInThatTensorAlone) {
  const auto device = GetParam().open();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Values a = any(1), b = any(2);
    b[kSecondTensor + 7] = value;
    const Values got = added(*device, a, b), right = added(*device, a, any(2));
    for (size_t i = 0; i < got.size(); ++i) {
      if (i >= kSecondTensor && i < kThirdTensor)
        ASSERT_TRUE(std::isnan(got[i])) << i;
      else
        ASSERT_EQ(got[i], right[i]) << i;
    }
  }
}

/// Replicas on any devices, which each combine some part, end in the same weights.
TEST_P(Adasum, IsTheSameBitsInPartsAndOnEveryDevice) {
  const auto device = GetParam().open(), cpu = open_device({DeviceKind::cpu, 0}, {.threads = 3});
  for (const double length : {1.0, 1e-7}) {
    const Values a = any(1), b = any(2, length), whole = added(*cpu, a, b);
    EXPECT_EQ(added(*device, a, b), whole);
    for (const int64_t parts : {2, 3, 7}) EXPECT_EQ(added(*device, a, b, parts), whole) << parts;
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Adasum, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace adasum_test
}  // namespace dptrain
