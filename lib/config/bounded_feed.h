#pragma once

#include <cstddef>
#include <streambuf>
#include <string_view>

namespace dptrain {

/// Feeds text to a YAML scanner, and ends the text early if the scanner takes more than 64 KiB without yielding an
/// event.
///
/// After an unclosed `[` that could begin a key, yaml-cpp 0.7 keeps every token until it knows whether it is one. 1 MiB
/// of brackets took 190 MB and 0.2 s before the first event at which a handler could have refused them.
class BoundedFeed : public std::streambuf {
 public:
  explicit BoundedFeed(std::string_view text) : text_(text) {}

  /// Notes that the scanner made progress. It may take another 64 KiB.
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
