#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace dptrain::app {

/// What a command writes, and how such a file begins.
struct OutputForm {
  std::string_view name;  ///< "a blessing"
  std::string_view beginning;
};

/// A file that a flag names and a command writes; one of the same form that is there is replaced, also where a link
/// leads to it, and an empty one.
class OutputFile {
 public:
  /// Throws 74 where it can't be written, as far as that can be told before, or another file is there: before anything
  /// is computed for it.
  OutputFile(const std::string& file, const OutputForm& form);

  /// Whole or not at all. Throws 74.
  void write(std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace dptrain::app
