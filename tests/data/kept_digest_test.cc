// A stored digest is used only for the same content, whatever has happened to the file or to the stored digest.
#include "data/kept_digest.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "data/settled.h"
#include "data/stored_file.h"
#include "support/idx_files.h"

namespace dptrain {
namespace {

using testing::ScratchFolder;

const std::string kOne(64, '1'), kTwo(64, '2');

class KeptDigestTest : public ::testing::Test {
 protected:
  KeptDigest of(const std::string& what = "all of it") const {
    return {.file = identity_, .what = what, .folders = {folder_.path()}};
  }
  /// The stored digest of the file, and `digest` if there is none.
  std::string get(const KeptDigest& kept, const std::string& digest) const {
    return kept.get([&] { return digest; });
  }
  std::filesystem::path only_file() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return files.at(0);
  }

  ScratchFolder folder_;
  FileIdentity identity_ = {.path = "/data/images",
                            .bytes = 100,
                            .modified_ns = 1'000'000'007,
                            .changed_ns = 1'000'000'009,
                            .inode = 5,
                            .is_settled = true};
};

TEST_F(KeptDigestTest, IsMadeOnce) {
  EXPECT_EQ(get(of(), kOne), kOne);
  EXPECT_EQ(get(of(), kTwo), kOne);
  EXPECT_EQ(only_file().filename().string().substr(0, 7), "images.");
  EXPECT_EQ(only_file().extension(), ".digest");
}

TEST_F(KeptDigestTest, IsOfOneContentAlone) {
  const KeptDigest kept = of();
  get(kept, kOne);
  std::vector<KeptDigest> others(5, kept);
  others[0].file.bytes = 101;
  others[1].file.modified_ns += 1;
  others[2].file.changed_ns += 1;
  others[3].file.inode += 1;
  others[4].file.path = "/other/images";
  others.push_back(of("the first half"));
  for (const KeptDigest& other : others) {
    EXPECT_EQ(get(other, kTwo), kTwo);
    EXPECT_EQ(get(other, kOne), kTwo) << "made anew, and kept";
    get(kept, kOne);
  }
}

TEST_F(KeptDigestTest, OfAFileThatHasOnlyJustChangedIsNot) {
  identity_.is_settled = false;
  EXPECT_EQ(get(of(), kOne), kOne);
  EXPECT_EQ(get(of(), kTwo), kTwo);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(KeptDigestTest, IsMadeAnewWhereItIsDamaged) {
  get(of(), kOne);
  const std::filesystem::path file = only_file();
  const std::string whole = read_file(file);
  const auto expect_made_anew = [&](const std::string& damaged) {
    folder_.write(file.filename(), damaged);
    EXPECT_EQ(get(of(), kTwo), kTwo);
    EXPECT_NE(read_file(file), damaged);
    folder_.write(file.filename(), whole);
  };
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) expect_made_anew(whole.substr(0, bytes));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    expect_made_anew(flipped);
  }
  expect_made_anew(whole + "x");
  expect_made_anew(std::string(100000, 'x'));
  EXPECT_EQ(get(of(), kTwo), kOne);
}

TEST_F(KeptDigestTest, IsKeptInTheFirstFolderThatCanBeWritten) {
  const ScratchFolder other;
  KeptDigest kept = of();
  // A file in place of a folder keeps even root out.
  kept.folders = {other.write("file", "") / "folder", folder_.path() / "made"};
  EXPECT_EQ(get(kept, kOne), kOne);
  EXPECT_EQ(get(kept, kTwo), kOne);
  EXPECT_FALSE(std::filesystem::is_empty(folder_.path() / "made"));
  kept.folders.pop_back();
  EXPECT_EQ(get(kept, kTwo), kTwo) << "kept nowhere";
}

TEST_F(KeptDigestTest, SeveralProcessesMayKeepItAtOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool right = true;
      for (int round = 0; round < 20; ++round) {
        std::error_code ignored;
        for (const auto& entry : std::filesystem::directory_iterator(folder_.path(), ignored))
          if (entry.path().extension() == ".digest") std::filesystem::remove(entry.path(), ignored);
        right = right && get(of(), kOne) == kOne;
      }
      ::_exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(get(of(), kTwo), kOne);
}

/// A program may write other bytes and reset the file's size and modification time.
TEST_F(KeptDigestTest, OfAFileThatWasChangedInSecretIsMadeAnew) {
  const std::filesystem::path path = folder_.write("images", "first");
  testing::wait_until_settled(path);
  const auto digest_of_it = [&](const std::string& digest) {
    return get({.file = StoredFile(path).identity(), .what = "all of it"}, digest);
  };
  EXPECT_EQ(digest_of_it(kOne), kOne);
  EXPECT_EQ(digest_of_it(kTwo), kOne);
  const auto modified = std::filesystem::last_write_time(path);
  folder_.write("images", "other");
  std::filesystem::last_write_time(path, modified);
  EXPECT_EQ(digest_of_it(kTwo), kTwo);
}

}  // namespace
}  // namespace dptrain
