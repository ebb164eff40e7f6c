#include "train/event_file.h"

#include <gtest/gtest.h>

#include "support/event_files.h"
#include "support/expect_error.h"
#include "support/full_disk.h"
#include "support/idx_files.h"
#include "support/process.h"
#include "train/event_record.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;
using testing::ScratchFolder;

TEST(EventFile, BeginsWithItsVersionAndGrows) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "tb";
  EXPECT_FALSE(has_event_files(folder));
  EventFile file(folder);
  file.append(scalars_record(1, 2, {{"a", 3}}), Sync::later);
  EXPECT_TRUE(has_event_files(folder));
  EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents.")) << file.path();
  const auto events = testing::events_in(testing::text_of(file.path()));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_GT(events[0].wall_time, 1.7e9) << "seconds since 1970";
  EXPECT_EQ(events[1].step, 2);
}

TEST(EventFile, IsReadAfterAllThatAreThere) {
  const ScratchFolder scratch;
  std::vector<fs::path> begun;
  for (int i = 0; i < 3; ++i) begun.push_back(EventFile(scratch.path()).path());  // all within one second
  EXPECT_EQ(testing::event_files(scratch.path()), begun);
  // A file of a machine whose clock is ahead.
  scratch.write("events.out.tfevents.8000000000.other", "");
  EXPECT_TRUE(EventFile(scratch.path()).path().filename().string().starts_with("events.out.tfevents.8000000001."));
}

TEST(EventFile, IsRemovedAloneAndWithAFolderThatIsItsOwn) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "tb";
  std::error_code error;
  remove_event_files(folder, error);
  EXPECT_FALSE(error) << "where there is none";
  const EventFile first(folder), second(folder);
  scratch.write("tb/notes.txt", "mine");
  remove_event_files(folder, error);
  EXPECT_FALSE(error);
  EXPECT_EQ(testing::event_files(folder), std::vector<fs::path>{folder / "notes.txt"});
  fs::remove(folder / "notes.txt");
  const EventFile third(folder);
  remove_event_files(folder, error);
  EXPECT_FALSE(fs::exists(folder));
}

TEST(EventFile, KeepsWholeRecordsOnAFullDisk) {
  const ScratchFolder scratch;
  EventFile file(scratch.path());
  const std::string record = scalars_record(1, 2, {{"a", 3}});
  file.append(record, Sync::now);
  {
    const testing::FullDisk disk(100);
    testing::expect_error(ExitCode::io, {file.path().string(), "could not write"},
                          [&] { file.append(record, Sync::now); });
  }
  file.append(record, Sync::now);
  EXPECT_EQ(testing::events_in(testing::text_of(file.path())).size(), 3u);
}

}  // namespace
}  // namespace dptrain::train
