#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dptrain::plan {

/// A file with the JSON that a command of dptrain has printed. Whoever wrote into it since is told so: what a plan is
/// made of has to be what numbers of that kind can be.
class PrintedFile {
 public:
  /// `command`: "bench ops".
  PrintedFile(std::filesystem::path file, std::string command);

  /// Hands the document to `use`. Throws 66 where there is no such file, 65 where it isn't JSON or `use` doesn't find
  /// in it what it asks for.
  void read(const std::function<void(const nlohmann::json& document)>& use) const;
  /// A number of the object. Throws 65 where it is less or more.
  double number(const nlohmann::json& object, const char* key, double least, double most) const;
  /// The same of a whole one.
  int64_t integer(const nlohmann::json& object, const char* key, int64_t least, int64_t most) const;
  /// Throws 65: the file has something that the command doesn't print.
  [[noreturn]] void damaged(const std::string& got) const;
  /// Throws 78: it was measured of something else.
  [[noreturn]] void refuse(const std::string& expected, const std::string& got, const std::string& advice) const;

 private:
  std::string what() const { return "expected what dptrain " + command_ + " --json prints"; }

  std::filesystem::path file_;
  std::string command_;
};

}  // namespace dptrain::plan
