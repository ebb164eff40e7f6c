#include "train/event_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "support/event_files.h"

namespace dptrain::train {
namespace {

std::string hex(const std::string& bytes) {
  const std::vector<unsigned char> numbers(bytes.begin(), bytes.end());
  return fmt::format("{:02x}", fmt::join(numbers, ""));
}

/// The bytes are those that TensorBoard 2.21's RecordWriter writes for such events.
TEST(EventRecord, HasTheBytesThatTensorboardWrites) {
  EXPECT_EQ(hex(version_record(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(hex(session_record(1.5, 300)), "100000000000000095fbfe1809000000000000f83f10ac023a020801713b788a");
  EXPECT_EQ(hex(scalars_record(1.5, 300, {{"train/loss", 0.25}, {"memory/peak_bytes", 3}})),
            "3b000000000000001a23ac5c09000000000000f83f10ac022a2d0a110a0a747261696e2f6c6f7373150000803e0a180a116d656d6f"
            "72792f7065616b5f627974657315000040404b5fa7ea");
  EXPECT_EQ(hex(text_record(1.5, 1, "config", "    seed: 0\n")),
            "33000000000000000ca7205609000000000000f83f10012a260a240a06636f6e66696742100807420c20202020736565643a20300a"
            "4a080a060a04746578741c6d9d81");
}

TEST(EventRecord, IsReadBack) {
  const std::string bytes = version_record(7) + session_record(8, 1) +
                            scalars_record(9, 1'000'000'000'000, {{"time/compute_s", 0.1}, {"comm/bytes", 5e9}}) +
                            text_record(10, 2, "config", "model: lenet\n");
  const auto events = testing::events_in(bytes);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 7);
  EXPECT_TRUE(events[1].starts_session);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[2].step, 1'000'000'000'000);
  EXPECT_EQ(events[2].scalars,
            (std::vector<std::pair<std::string, float>>{{"time/compute_s", 0.1F}, {"comm/bytes", 5e9F}}));
  EXPECT_EQ(events[3].texts, (std::vector<std::pair<std::string, std::string>>{{"config", "model: lenet\n"}}));
  for (const size_t cut : {1, 5, 40}) EXPECT_EQ(testing::events_in(bytes.substr(0, bytes.size() - cut)).size(), 3u);
}

}  // namespace
}  // namespace dptrain::train
