#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dptrain {

/// Lines of UTF-8 text in order, in one piece of memory. No line is blank: each has a visible character.
class TextLines {
 public:
  int64_t count() const { return static_cast<int64_t>(begins_.size()) - 1; }
  std::string_view operator[](int64_t index) const;
  /// Bytes of all lines, without line ends.
  int64_t bytes() const { return static_cast<int64_t>(text_.size()); }

  /// Adds a line of valid UTF-8, unless it is blank.
  void append(std::string_view line);

 private:
  std::string text_;
  std::vector<size_t> begins_ = {0};  ///< the beginning of each line, and the end of the last
};

/// Reads files of UTF-8 text, plain or gzip, one after the other. A line ends with a line feed, which a carriage return
/// may precede; the last line may end with its file. Blank lines and a byte order mark are left out.
///
/// Throws 66 if a file is missing. Throws 65, naming file and line (from 1), for bytes that aren't UTF-8 or are zero,
/// and for a line over 1 MiB. Also throws 65 for a file with only blank lines, and if all files together hold more than
/// `limit_bytes` after decompression.
TextLines read_text_lines(std::span<const std::filesystem::path> files, int64_t limit_bytes = int64_t{1} << 30);

}  // namespace dptrain
