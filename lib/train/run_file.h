#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace dptrain::train {

// Reading of files that a run has written. Mistakes in a file are reported as 65, naming the file.

/// Throws 65: `file` has `got`, which no run writes.
[[noreturn]] void refuse_run_file(const std::filesystem::path& file, const std::string& got);

/// Calls `read` with each line of a JSON Lines file. Half a line at its end is skipped, because a run may just be
/// writing it. A JSON exception of `read` becomes 65 with the line's number. Throws 74 if the file can't be read.
void read_run_lines(const std::filesystem::path& file, const std::function<void(const std::string& line)>& read);

/// Calls `read` with the text of a file that is one JSON document. Throws as read_run_lines does.
void read_run_document(const std::filesystem::path& file, const std::function<void(const std::string& text)>& read);

}  // namespace dptrain::train
