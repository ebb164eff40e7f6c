// Our kernels and oneDNN's must agree on the vector instructions, because the width of a channel block depends on them.
// ctest runs this again under the caps that ONEDNN_MAX_CPU_ISA sets.

#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/conv2d.h"
#include "ops/onednn_version.h"
#include "support/test_device.h"

namespace dptrain {
namespace instruction_set_test {

TEST(InstructionSet, IsTheSameForOurKernelsAndOneDnns) {
  EXPECT_STREQ(cpu_isa_name(ops::onednn_isa()), cpu_isa_name(cpu_isa()));
  const char* cap = std::getenv("ONEDNN_MAX_CPU_ISA");
  EXPECT_LE(cpu_isa(), cpu_isa_cap(cap != nullptr ? cap : ""));
}

TEST(InstructionSet, DecidesTheWidthOfABlock) {
  const auto device = testing::test_device();
  const bool wide = cpu_isa() == CpuIsa::avx512;
  EXPECT_EQ(ops::conv2d_output_layout(*device, {64, 64, 3, 3}), wide ? Layout::nchw16c : Layout::nchw8c);
  EXPECT_EQ(ops::conv2d_weight_layout(*device, {64, 64, 3, 3}), wide ? Layout::oihw16i16o : Layout::oihw8i8o);
  EXPECT_EQ(ops::has_winograd(*device), cpu_isa() != CpuIsa::baseline);
}

TEST(OneDnn, SaysItsVersion) { EXPECT_GE(ops::onednn_version(), "2.5"); }

}  // namespace instruction_set_test
}  // namespace dptrain
