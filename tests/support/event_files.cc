#include "support/event_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "support/process.h"

namespace dptrain::testing {
namespace {

template <typename T>
T number_at(std::string_view bytes) {
  T number{};
  EXPECT_GE(bytes.size(), sizeof number);
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
  return number;
}

/// The CRC of records, computed bit by bit as the polynomial's division, and masked.
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82f63b78 & (0 - (crc & 1)));
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

/// A field of a message in the wire format of Protocol Buffers.
struct Field {
  int number = 0;
  uint64_t integer = 0;    ///< value of a varint
  std::string_view bytes;  ///< content of any other field
};

/// Removes a varint from the front of `bytes` and returns it.
uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::vector<Field> fields_of(std::string_view bytes) {
  std::vector<Field> fields;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes), layout = key & 7;
    Field field{.number = static_cast<int>(key >> 3), .integer = 0, .bytes = {}};
    if (layout == 0) {
      field.integer = take_varint(bytes);
    } else {
      const uint64_t size = layout == 1 ? 8 : layout == 5 ? 4 : take_varint(bytes);
      EXPECT_LE(size, bytes.size());
      field.bytes = bytes.substr(0, size);
      bytes.remove_prefix(std::min<uint64_t>(size, bytes.size()));
    }
    fields.push_back(field);
  }
  return fields;
}

void add_value(ReadEvent& event, std::string_view value) {
  std::string tag;
  for (const Field& field : fields_of(value)) {
    if (field.number == 1) tag = field.bytes;
    if (field.number == 2) event.scalars.emplace_back(tag, number_at<float>(field.bytes));
    if (field.number == 8)
      for (const Field& of_tensor : fields_of(field.bytes))
        if (of_tensor.number == 8) event.texts.emplace_back(tag, of_tensor.bytes);
  }
}

ReadEvent event_of(std::string_view message) {
  ReadEvent event;
  for (const Field& field : fields_of(message)) switch (field.number) {
      case 1: event.wall_time = number_at<double>(field.bytes); break;
      case 2: event.step = static_cast<int64_t>(field.integer); break;
      case 3: event.file_version = field.bytes; break;
      case 5:
        for (const Field& value : fields_of(field.bytes)) add_value(event, value.bytes);
        break;
      case 7:
        for (const Field& status : fields_of(field.bytes))
          event.starts_session = event.starts_session || (status.number == 1 && status.integer == 1);
        break;
      default: ADD_FAILURE() << "an event has no field " << field.number;
    }
  return event;
}

/// Removes a record from the front of `bytes` and returns its content; empty if the record isn't complete.
std::optional<std::string_view> take_record(std::string_view& bytes) {
  constexpr size_t kHead = 12, kTail = 4;
  if (bytes.size() < kHead) return std::nullopt;
  EXPECT_EQ(number_at<uint32_t>(bytes.substr(8)), masked_crc(bytes.substr(0, 8)));
  const auto size = number_at<uint64_t>(bytes);
  if (bytes.size() - kHead < size || bytes.size() - kHead - size < kTail) return std::nullopt;
  const std::string_view record = bytes.substr(kHead, size);
  EXPECT_EQ(number_at<uint32_t>(bytes.substr(kHead + size)), masked_crc(record));
  bytes.remove_prefix(kHead + size + kTail);
  return record;
}

}  // namespace

std::vector<ReadEvent> events_in(const std::string& bytes) {
  std::vector<ReadEvent> events;
  std::string_view left = bytes;
  while (const auto record = take_record(left)) events.push_back(event_of(*record));
  return events;
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

Curves curves_of(const std::filesystem::path& folder) {
  Curves curves;
  bool has_started = false;
  for (const std::filesystem::path& file : event_files(folder))
    for (const ReadEvent& event : events_in(text_of(file))) {
      if (event.starts_session && std::exchange(has_started, true))
        for (auto& [tag, curve] : curves)
          std::erase_if(curve, [&](const auto& point) { return point.first >= event.step; });
      for (const auto& [tag, value] : event.scalars) curves[tag].emplace_back(event.step, value);
    }
  std::erase_if(curves, [](const auto& curve) { return curve.second.empty(); });
  return curves;
}

}  // namespace dptrain::testing
