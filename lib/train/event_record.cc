#include "train/event_record.h"

#include <string_view>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/protobuf_message.h"

namespace dptrain::train {
namespace {

// Field numbers and enumeration values, grouped by message.
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5, kEventSessionLog = 7;
constexpr int kSessionLogStatus = 1, kSessionLogStart = 1;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1, kValueSimpleValue = 2, kValueTensor = 8, kValueMetadata = 9;
constexpr int kMetadataPluginData = 1, kPluginDataName = 1;
constexpr int kTensorDtype = 1, kTensorString = 7, kTensorStringVal = 8;

/// A checksum in the form of TFRecords: rotated and offset, because a CRC of bytes that contain CRCs is weak.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

/// A TFRecord: length, its checksum, the bytes, their checksum.
std::string framed(const ProtobufMessage& message) {
  std::string record;
  append_little_endian(record, uint64_t{message.bytes().size()});
  append_little_endian(record, masked_crc(record));
  record += message.bytes();
  append_little_endian(record, masked_crc(message.bytes()));
  return record;
}

ProtobufMessage event_of_step(double at_s, int64_t step) {
  ProtobufMessage event;
  event.add_double(kEventWallTime, at_s);
  event.add_integer(kEventStep, step);
  return event;
}

}  // namespace

std::string version_record(double at_s) {
  ProtobufMessage event;
  event.add_double(kEventWallTime, at_s);
  event.add_bytes(kEventFileVersion, "brain.Event:2");
  return framed(event);
}

std::string session_record(double at_s, int64_t first_step) {
  ProtobufMessage log;
  log.add_integer(kSessionLogStatus, kSessionLogStart);
  ProtobufMessage event = event_of_step(at_s, first_step);
  event.add_message(kEventSessionLog, log);
  return framed(event);
}

std::string scalars_record(double at_s, int64_t step, const std::vector<TaggedScalar>& scalars) {
  ProtobufMessage summary;
  for (const TaggedScalar& scalar : scalars) {
    ProtobufMessage value;
    value.add_bytes(kValueTag, scalar.tag);
    value.add_float(kValueSimpleValue, static_cast<float>(scalar.value));
    summary.add_message(kSummaryValue, value);
  }
  ProtobufMessage event = event_of_step(at_s, step);
  event.add_message(kEventSummary, summary);
  return framed(event);
}

std::string text_record(double at_s, int64_t step, const std::string& tag, const std::string& text) {
  ProtobufMessage tensor, plugin, metadata, value, summary;
  tensor.add_integer(kTensorDtype, kTensorString);
  tensor.add_bytes(kTensorStringVal, text);
  plugin.add_bytes(kPluginDataName, "text");
  metadata.add_message(kMetadataPluginData, plugin);
  value.add_bytes(kValueTag, tag);
  value.add_message(kValueTensor, tensor);
  value.add_message(kValueMetadata, metadata);
  summary.add_message(kSummaryValue, value);
  ProtobufMessage event = event_of_step(at_s, step);
  event.add_message(kEventSummary, summary);
  return framed(event);
}

}  // namespace dptrain::train
