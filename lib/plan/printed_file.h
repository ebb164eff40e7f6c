#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dptrain::plan {

/// A file with the JSON that a command of dptrain has printed. It reports later edits that can't be right, because a
/// plan needs numbers of a possible size.
class PrintedFile {
 public:
  /// `command`: the command that printed it, for instance "bench ops".
  PrintedFile(std::filesystem::path file, std::string command);

  /// Passes the document to `use`. Throws 66 if the file is missing, 65 if it isn't JSON or lacks something that `use`
  /// asks for.
  void read(const std::function<void(const nlohmann::json& document)>& use) const;
  /// A number of the object. Throws 65 if it is outside of `least` to `most`.
  double number(const nlohmann::json& object, const char* key, double least, double most) const;
  /// An integer of the object. Throws 65 if it is outside of `least` to `most`.
  int64_t integer(const nlohmann::json& object, const char* key, int64_t least, int64_t most) const;
  /// Throws 65: the file has something that the command doesn't print.
  [[noreturn]] void damaged(const std::string& got) const;
  /// Throws 78: the file was measured on something else than is planned.
  [[noreturn]] void refuse(const std::string& expected, const std::string& got, const std::string& advice) const;

 private:
  std::string what() const { return "expected the output of dptrain " + command_ + " --json"; }

  std::filesystem::path file_;
  std::string command_;
};

}  // namespace dptrain::plan
