// Files are complete or absent, and a failure is one sentence with the right exit code.

#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "support/expect_error.h"
#include "support/full_disk.h"
#include "support/idx_files.h"

namespace dptrain {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

class Files : public ::testing::Test {
 protected:
  testing::ScratchFolder folder_;
  fs::path path_ = folder_.path() / "result.json";
};

TEST_F(Files, AreReadWhole) {
  const std::string bytes = std::string("a\0b\n", 4) + std::string(200'000, 'x');
  EXPECT_EQ(read_file(folder_.write("data", bytes)), bytes);
  EXPECT_EQ(read_file(folder_.write("empty", "")), "");
}

TEST_F(Files, AreRefusedByTheirReason) {
  testing::expect_error(ExitCode::missing_file, {"result.json", "no such file"}, [&] { read_file(path_); });
  testing::expect_error(ExitCode::missing_file, {"no such file"}, [&] { read_file(path_ / "below"); });
  testing::expect_error(ExitCode::missing_file, {"expected a file, got a folder"}, [&] { read_file(folder_.path()); });
  testing::expect_error(ExitCode::io, {"could not read"}, [&] { read_file("/proc/self/mem"); });
  folder_.write("large", std::string(101, 'x'));
  testing::expect_error(ExitCode::bad_data, {"large", "at most 100 bytes"},
                        [&] { read_file(folder_.path() / "large", 100); });
  EXPECT_EQ(read_file(folder_.path() / "large", 101).size(), 101u);
}

/// The pipe's other end may never be opened.
TEST_F(Files, APipeIsRefusedNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  testing::expect_error(ExitCode::io, {"result.json: expected a file, got a pipe"}, [&] { read_file(path_); });
  testing::expect_error(ExitCode::io, {"result.json: expected a file, got a pipe"}, [&] { append_line(path_, "a"); });
}

TEST_F(Files, AreReplacedWhole) {
  write_file_atomically(path_, "first");
  write_file_atomically(path_, "second");
  EXPECT_EQ(read_file(path_), "second");
  const std::string a = "head", b, c = "tail";
  const std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(a)), std::as_bytes(std::span(b)),
                                                         std::as_bytes(std::span(c))};
  write_file_atomically(path_, parts);
  EXPECT_EQ(read_file(path_), "headtail");
  EXPECT_EQ(names_in(folder_.path()), std::vector<std::string>{"result.json"});
}

TEST_F(Files, StayAsTheyWereOnAFullDisk) {
  write_file_atomically(path_, "old");
  {
    const testing::FullDisk disk(1000);
    testing::expect_error(ExitCode::io, {"could not write"},
                          [&] { write_file_atomically(path_, std::string(100'000, 'x')); });
  }
  EXPECT_EQ(read_file(path_), "old");
  EXPECT_EQ(names_in(folder_.path()), std::vector<std::string>{"result.json"});
}

TEST_F(Files, LeaveNothingBesideANameThatIsAFolder) {
  fs::create_directory(path_);
  testing::expect_error(ExitCode::io, {"could not replace"}, [&] { write_file_atomically(path_, "text"); });
  EXPECT_EQ(names_in(folder_.path()), std::vector<std::string>{"result.json"});
  EXPECT_TRUE(fs::is_directory(path_));
}

TEST_F(Files, NeedTheirFolder) {
  testing::expect_error(ExitCode::io, {"absent", "could not create"},
                        [&] { write_file_atomically(folder_.path() / "absent" / "file", "text"); });
  testing::expect_error(ExitCode::io, {"could not open"},
                        [&] { append_line(folder_.path() / "absent" / "file", "x"); });
  testing::expect_error(ExitCode::io, {"could not open"}, [&] { sync_folder(folder_.path() / "absent"); });
}

TEST_F(Files, GrowByWholeLines) {
  append_line(path_, "{\"step\": 1}");
  append_line(path_, "");
  append_line(path_, "{\"step\": 2}");
  EXPECT_EQ(read_file(path_), "{\"step\": 1}\n\n{\"step\": 2}\n");
}

TEST_F(Files, KeepWholeLinesOnAFullDisk) {
  append_line(path_, "{\"step\": 1}");
  {
    const testing::FullDisk disk(20);
    testing::expect_error(ExitCode::io, {"result.json: could not write: "},
                          [&] { append_line(path_, "{\"step\": 2}"); });
  }
  EXPECT_EQ(read_file(path_), "{\"step\": 1}\n");
}

TEST_F(Files, GrowByBytesThatAreAllThereOrNone) {
  const std::string bytes("a\0b", 3);
  for (const Sync sync : {Sync::now, Sync::later}) append_bytes(path_, bytes, sync);
  {
    const testing::FullDisk disk(8);
    for (const Sync sync : {Sync::now, Sync::later})
      testing::expect_error(ExitCode::io, {"result.json: could not write: "},
                            [&] { append_bytes(path_, bytes, sync); });
  }
  EXPECT_EQ(read_file(path_), bytes + bytes);
}

TEST_F(Files, AFolderThatCannotBeReadIsSaid) {
  EXPECT_NO_THROW(require_readable_folder(folder_.path()));
  EXPECT_NO_THROW(require_readable_folder(folder_.path() / "absent"));
  EXPECT_NO_THROW(require_readable_folder(folder_.write("file", "x")));
  // Whoever runs the tests may be allowed to read everything, but a loop of links can't be followed.
  fs::create_symlink("loop", folder_.path() / "loop");
  testing::expect_error(ExitCode::io, {"loop: could not read the folder: "},
                        [&] { require_readable_folder(folder_.path() / "loop"); });
}

TEST_F(Files, FoldersAreMadeWithTheirParents) {
  make_folder(folder_.path() / "a" / "b");
  make_folder(folder_.path() / "a" / "b");
  EXPECT_TRUE(fs::is_directory(folder_.path() / "a" / "b"));
  folder_.write("file", "x");
  testing::expect_error(ExitCode::io, {"could not create the folder"},
                        [&] { make_folder(folder_.path() / "file" / "b"); });
}

}  // namespace
}  // namespace dptrain
