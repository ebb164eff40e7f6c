#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace dptrain::app {

/// The kind of file that a command writes, and the text that such a file begins with.
struct OutputForm {
  std::string_view name;  ///< "a blessing"
  std::string_view beginning;
};

/// A file that a flag names and a command writes. It replaces an existing file of the same form, also through a link,
/// and an empty file.
class OutputFile {
 public:
  /// Checks the file before anything is computed for it. Throws 74 if it clearly can't be written, or if a file of
  /// another form exists.
  OutputFile(const std::string& file, const OutputForm& form);

  /// Writes the file whole or not at all. Throws 74.
  void write(std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace dptrain::app
