#include "data/kept_vocabulary.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "data/refusal.h"
#include "data/small_text.h"
#include "support/idx_files.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::ScratchFolder;
using testing::small_text;

constexpr int64_t kPieces = 60;

TextLines longer_text() {
  TextLines lines = small_text();
  lines.append("And God made two great lights;");
  return lines;
}

/// The files of a folder, sorted by name.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

class KeptVocabulary : public ::testing::Test {
 protected:
  Tokenizer tokenizer(const TextLines& lines = small_text(), int64_t pieces = kPieces) const {
    return kept_tokenizer(lines, {.pieces = pieces, .name = "genesis", .folders = {folder_.path()}});
  }
  std::filesystem::path only_file() const {
    const auto files = files_of(folder_.path());
    EXPECT_EQ(files.size(), 1u);
    return files.at(0);
  }

  ScratchFolder folder_;
};

const std::string kLine = "And God saw the light";

TEST_F(KeptVocabulary, IsTrainedOnceForATextAndASize) {
  const std::vector<int32_t> tokens = tokenizer().encode(kLine);
  const std::filesystem::path file = only_file();
  EXPECT_EQ(file.filename().string().substr(0, 11), "genesis.60.");
  EXPECT_EQ(file.extension(), ".vocabulary");
  EXPECT_EQ(tokenizer().encode(kLine), tokens);
  EXPECT_EQ(files_of(folder_.path()).size(), 1u);
  tokenizer(longer_text());
  EXPECT_EQ(files_of(folder_.path()).size(), 2u);
  EXPECT_EQ(tokenizer(small_text(), 50).vocabulary_size(), 50);
  EXPECT_EQ(files_of(folder_.path()).size(), 3u);
}

TEST_F(KeptVocabulary, TheKeptFileIsTheOneUsed) {
  const std::vector<int32_t> own = tokenizer().encode(kLine);
  const std::filesystem::path file = only_file();
  std::filesystem::remove(file);
  TextLines other;
  for (const char* line : {"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abc abc abc xyz xyz"})
    other.append(line);
  const std::vector<int32_t> others = tokenizer(other).encode(kLine);
  ASSERT_NE(others, own);
  std::filesystem::rename(only_file(), file);
  EXPECT_EQ(tokenizer().encode(kLine), others);
}

TEST_F(KeptVocabulary, CorruptFilesAreRefused) {
  tokenizer();
  const std::filesystem::path file = only_file();
  const std::string whole = read_file(file);
  const auto expect_bad = [&](const std::string& bytes) {
    folder_.write(file.filename(), bytes);
    expect_refusal(ExitCode::bad_data, {file.string() + ": expected a vocabulary", "delete the file"},
                   [&] { tokenizer(); });
  };
  for (const size_t bytes : {size_t{0}, size_t{10}, size_t{84}, whole.size() / 2, whole.size() - 1})
    expect_bad(whole.substr(0, bytes));
  for (const size_t at : {size_t{0}, size_t{30}, size_t{83}, whole.size() / 3, whole.size() - 1}) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    expect_bad(flipped);
  }
  folder_.write(file.filename(), whole);
  EXPECT_EQ(tokenizer().vocabulary_size(), kPieces);
}

TEST_F(KeptVocabulary, AnotherSizeIsRefused) {
  tokenizer(small_text(), 50);
  const std::filesystem::path smaller = only_file();
  tokenizer();
  for (const auto& file : files_of(folder_.path()))
    if (file != smaller) std::filesystem::copy_file(smaller, file, std::filesystem::copy_options::overwrite_existing);
  expect_refusal(ExitCode::bad_data, {"genesis.60.", "expected a vocabulary of 60 pieces, got 50", "delete the file"},
                 [&] { tokenizer(); });
}

TEST_F(KeptVocabulary, IsKeptInTheFirstFolderThatCanBeWritten) {
  const std::filesystem::path cache = folder_.path() / "cache" / "dptrain";
  KeptVocabularyOptions options{
      .pieces = kPieces, .name = "genesis", .folders = {"/proc/none", cache, folder_.path() / "third"}};
  const std::vector<int32_t> tokens = kept_tokenizer(small_text(), options).encode(kLine);
  EXPECT_EQ(files_of(cache).size(), 1u);
  EXPECT_EQ(files_of(folder_.path()).size(), 1u);
  EXPECT_EQ(kept_tokenizer(small_text(), options).encode(kLine), tokens);
  // Without any folder the same vocabulary is made each time.
  options.folders = {"/proc/none"};
  EXPECT_EQ(kept_tokenizer(small_text(), options).encode(kLine), tokens);
}

TEST_F(KeptVocabulary, TwoProcessesAtOnceAreHarmless) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool right = false;
      try {
        right = tokenizer().vocabulary_size() == kPieces;
      } catch (...) {
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
  only_file();
  EXPECT_EQ(tokenizer().vocabulary_size(), kPieces);
}

}  // namespace
}  // namespace dptrain
