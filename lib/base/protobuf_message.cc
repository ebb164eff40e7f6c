#include "base/protobuf_message.h"

#include <bit>

#include "base/little_endian.h"

namespace dptrain {

void ProtobufMessage::add_integer(int field, int64_t value) {
  add_key(field, Layout::varint);
  add_varint(static_cast<uint64_t>(value));
}

void ProtobufMessage::add_float(int field, float value) {
  add_key(field, Layout::four_bytes);
  append_little_endian(bytes_, std::bit_cast<uint32_t>(value));
}

void ProtobufMessage::add_double(int field, double value) {
  add_key(field, Layout::eight_bytes);
  append_little_endian(bytes_, std::bit_cast<uint64_t>(value));
}

void ProtobufMessage::add_bytes(int field, std::string_view value) {
  add_key(field, Layout::counted_bytes);
  add_varint(value.size());
  bytes_ += value;
}

void ProtobufMessage::add_key(int field, Layout layout) {
  add_varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(layout));
}

void ProtobufMessage::add_varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
  bytes_.push_back(static_cast<char>(value));
}

}  // namespace dptrain
