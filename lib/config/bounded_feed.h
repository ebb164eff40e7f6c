#pragma once

#include <cstddef>
#include <streambuf>
#include <string_view>

namespace dptrain {

/// Hands text to a YAML scanner, and ends it early where the scanner takes more than 64 KiB without yielding an event.
///
/// After an unclosed `[` where a key could stand, yaml-cpp 0.7 keeps every token until it knows whether there is one:
/// 1 MiB of brackets became 190 MB and 0.2 s before the first event at which a handler could have refused it.
class BoundedFeed : public std::streambuf {
 public:
  explicit BoundedFeed(std::string_view text) : text_(text) {}

  /// The scanner made progress: it may take another 64 KiB.
  void event_seen() { since_event_bytes_ = 0; }
  bool ended_early() const { return ended_early_; }

 protected:
  int_type underflow() override;

 private:
  std::string_view text_;
  size_t since_event_bytes_ = 0;
  bool ended_early_ = false;
  char block_[2048];
};

}  // namespace dptrain
