// Which tensors an entry of `freeze`, `init.except` or a parameter group selects.
#include "nn/name_cover.h"

#include <gtest/gtest.h>

namespace dptrain::nn {
namespace {

TEST(NameCover, IsATensorOrAModuleThatItIsIn) {
  const std::string tensor = "layer1.0.conv1.weight";
  for (const char* entry : {"layer1.0.conv1.weight", "layer1.0.conv1", "layer1.0", "layer1"})
    EXPECT_TRUE(covers(entry, tensor)) << entry;
  for (const char* entry : {"", "layer", "layer1.", "layer1.0.conv", "0.conv1", "weight", "layer1.0.conv1.weight.x"})
    EXPECT_FALSE(covers(entry, tensor)) << entry;
}

TEST(NameCover, AStarStandsForAnyCharacters) {
  const std::string tensor = "layer1.0.bn1.weight";
  for (const char* entry : {"*", "*.weight", "*weight", "layer*", "layer*.bn1", "l*1", "*.bn*", "layer1.*.weight",
                            "*.0.*", "layer1.0.bn1.weight*", "**", "*a*e*r*"})
    EXPECT_TRUE(covers(entry, tensor)) << entry;
  for (const char* entry : {"*.bias", "*.bn", "layer2*", "*weights", "*.weight.*", "layer1*bn2", "*.bn1.weight.x"})
    EXPECT_FALSE(covers(entry, tensor)) << entry;
  // The last piece must match at the end, even if it also occurs earlier.
  EXPECT_TRUE(covers("a*b", "ab.b"));
  EXPECT_FALSE(covers("ab*b", "ab"));
}

TEST(NameCover, SuggestsWhatIsNear) {
  const std::vector<std::string> tensors = {"conv1.weight", "conv1.bias", "fc.weight", "fc.bias"};
  EXPECT_EQ(suggested_cover("conv2", tensors), "did you mean 'conv1'?");
  EXPECT_EQ(suggested_cover("*.gamma", tensors), "choose one of: conv1, fc");
}

}  // namespace
}  // namespace dptrain::nn
