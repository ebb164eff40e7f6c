#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/sha256.h"
#include "support/source_tree.h"

namespace dptrain {
namespace {

TEST(DatasetFiles, DigitsAreThoseOfTheirSums) {
  const std::filesystem::path folder = testing::source_file("datasets/mnist-10k");
  std::istringstream sums(read_file(folder / "SHA256SUMS"));
  int files = 0;
  for (std::string sum, name; sums >> sum >> name; ++files) {
    Sha256 sha;
    sha.update(read_file(folder / name));
    EXPECT_EQ(sha.hex_digest(), sum) << name;
  }
  EXPECT_EQ(files, 4);
}

}  // namespace
}  // namespace dptrain
