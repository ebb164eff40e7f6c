// A file that claims, or has, far more content than it should is refused before it takes memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "base/random.h"
#include "data/idx_file.h"
#include "data/refusal.h"
#include "support/idx_files.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::gzip;
using testing::idx_header;
using testing::ScratchFolder;

constexpr int64_t kMiB = int64_t{1} << 20;

/// This process's VmRSS, or its peak VmHWM.
int64_t resident_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::atoll(line.c_str() + key.size() + 1) * 1024;
  return 0;
}

/// How far resident memory rises while `body` runs; empty if the kernel can't reset its peak.
template <class Body>
std::optional<int64_t> rise_bytes(const Body& body) {
  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;
  const int64_t before = resident_bytes("VmRSS");
  if (before == 0 || resident_bytes("VmHWM") > before + kMiB) return std::nullopt;
  body();
  return resident_bytes("VmHWM") - before;
}

void expect_cheap_refusal(const std::string& bytes, const std::vector<std::string>& words, int64_t most_bytes) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.write("images.gz", bytes);
  const std::optional<int64_t> rise =
      rise_bytes([&] { expect_refusal(ExitCode::bad_data, words, [&] { read_idx_images(path); }); });
  if (!rise) GTEST_SKIP() << "this kernel doesn't reset the peak of resident memory (/proc/self/clear_refs)";
  EXPECT_LT(*rise, most_bytes);
}

TEST(GzipBomb, ContentBeyondTheHeaderIsNotInflated) {
  const std::string packed = gzip(idx_header({0x803, 10, 8, 8}) + std::string(static_cast<size_t>(128 * kMiB), '\0'));
  ASSERT_LT(packed.size(), static_cast<size_t>(kMiB));
  expect_cheap_refusal(packed, {"images.gz: pixels", "expected 640 bytes", "got more"}, 8 * kMiB);
}

TEST(GzipBomb, HeaderThatTheFileCannotHoldIsRefusedAtOnce) {
  const std::string packed = gzip(idx_header({0x803, 60000, 1000, 1000}) + std::string(1000, '\0'));
  expect_cheap_refusal(packed, {"images.gz: pixels", "expected 60000000000 bytes", "the most that a gzip file of"},
                       8 * kMiB);
}

TEST(GzipBomb, FalseHeaderTakesOnlyWhatComes) {
  // Noise doesn't compress, so for a file of this size the header might be true.
  std::string content = idx_header({0x803, 256, 1024, 1024});
  const KeyedRandom random(0, RandomPurpose::synthetic, 0, 0);
  for (uint64_t i = 0; i < static_cast<uint64_t>(kMiB); ++i) content += static_cast<char>(random.word(i) & 0xff);
  expect_cheap_refusal(gzip(content), {"images.gz: pixels", "expected 268435456 bytes", "got 1048576"}, 64 * kMiB);
}

}  // namespace
}  // namespace dptrain
