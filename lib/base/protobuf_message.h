#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dptrain {

/// Builds a message in the wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding), field by field.
/// `field` is the number that the message's definition gives the field.
class ProtobufMessage {
 public:
  /// For fields of type int64 or of an enumeration.
  void add_integer(int field, int64_t value);
  void add_float(int field, float value);
  void add_double(int field, double value);
  /// For fields of type string or bytes.
  void add_bytes(int field, std::string_view value);
  void add_message(int field, const ProtobufMessage& message) { add_bytes(field, message.bytes()); }

  const std::string& bytes() const { return bytes_; }

 private:
  /// How a field's value is encoded.
  enum class Layout { varint = 0, eight_bytes = 1, counted_bytes = 2, four_bytes = 5 };
  void add_key(int field, Layout layout);
  /// Seven bits per byte, lowest first. All bytes except the last have the highest bit set.
  void add_varint(uint64_t value);

  std::string bytes_;
};

}  // namespace dptrain
