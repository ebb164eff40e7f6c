#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace dptrain::app {

/// A file that a flag names and a command writes; a file that is there is replaced, also where a link leads to it.
class OutputFile {
 public:
  /// Throws 74 where it can't be written, as far as that can be told before: before anything is computed for it.
  explicit OutputFile(const std::string& file);

  /// Whole or not at all. Throws 74.
  void write(std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace dptrain::app
