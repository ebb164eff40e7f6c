#include "output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace dptrain::app {

namespace fs = std::filesystem;

namespace {

/// The first `bytes` bytes of a file; "" if it can't be read.
std::string beginning_of(const fs::path& path, size_t bytes) {
  std::ifstream in(path, std::ios::binary);
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

}  // namespace

OutputFile::OutputFile(const std::string& file, const OutputForm& form) : path_(file) {
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw Error(ExitCode::io,
                Mistake{.where = file, .expected = expected, .got = got, .advice = "choose another place"});
  };
  std::error_code error;
  const fs::file_status found = fs::status(path_, error);
  if (found.type() == fs::file_type::none) refuse("expected a file that can be written", error.message());
  if (fs::exists(found) && !fs::is_regular_file(found)) refuse("expected a file", kind_of_what_is_no_file(path_));
  if (fs::exists(found) && fs::file_size(path_, error) > 0 &&
      beginning_of(path_, form.beginning.size()) != form.beginning)
    refuse(fmt::format("expected no file there, or {} to replace", form.name), "another file");
  if (fs::is_symlink(fs::symlink_status(path_, error))) path_ = fs::weakly_canonical(path_);
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) refuse("expected an existing folder", folder.string());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse("expected a folder that can be written", fmt::format("{}: {}", folder.string(), std::strerror(errno)));
}

void OutputFile::write(std::string_view text) const { write_file_atomically(path_, text); }

}  // namespace dptrain::app
