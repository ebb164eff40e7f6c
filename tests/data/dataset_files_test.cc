#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/sha256.h"
#include "data/text_lines.h"
#include "support/source_tree.h"

namespace dptrain {
namespace {

/// Checks the files that the folder's SHA256SUMS lists; returns their number.
int check_sums(const std::filesystem::path& folder) {
  std::istringstream sums(read_file(folder / "SHA256SUMS"));
  int files = 0;
  for (std::string sum, name; sums >> sum >> name; ++files) {
    Sha256 sha;
    sha.update(read_file(folder / name));
    EXPECT_EQ(sha.hex_digest(), sum) << name;
  }
  return files;
}

TEST(DatasetFiles, AreThoseOfTheirSums) {
  EXPECT_EQ(check_sums(testing::source_file("datasets/mnist-10k")), 4);
  EXPECT_EQ(check_sums(testing::source_file("datasets/kjv")), 1);
}

TEST(DatasetFiles, BibleHasAVerseALine) {
  const std::filesystem::path path = testing::source_file("datasets/kjv/kjv.txt.gz");
  const TextLines lines = read_text_lines({&path, 1});
  ASSERT_EQ(lines.count(), 31102);
  EXPECT_EQ(lines[0], "In the beginning God created the heaven and the earth.");
  EXPECT_EQ(lines[31101], "The grace of our Lord Jesus Christ be with you all. Amen.");
}

}  // namespace
}  // namespace dptrain
