#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace dptrain::train {

// Files that a run has written. What is wrong in one is told as 65, naming the file.

/// Throws 65: `file` isn't what a run writes, for it has `got`.
[[noreturn]] void refuse_run_file(const std::filesystem::path& file, const std::string& got);

/// Gives `read` each line of a file of JSON lines; half a line at its end, which is just being written, is left out.
/// What `read` throws for JSON that it didn't expect becomes 65 with the number of the line. Throws 74 where the file
/// can't be read.
void read_run_lines(const std::filesystem::path& file, const std::function<void(const std::string& line)>& read);

/// The same of a file that is one document.
void read_run_document(const std::filesystem::path& file, const std::function<void(const std::string& text)>& read);

}  // namespace dptrain::train
