#include "data/cache_folders.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace dptrain {
namespace {

/// Sets an environment variable, or removes it, until the object ends.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) const { value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_); }

  const char* name_;
  std::optional<std::string> before_;
};

TEST(CacheFolders, AreThatOfTheFileAndTheUsersCache) {
  using Folders = std::vector<std::filesystem::path>;
  const Environment home("HOME", "/home/anna");
  {
    const Environment cache("XDG_CACHE_HOME", "/fast/cache");
    EXPECT_EQ(cache_folders("texts/kjv.txt.gz"), (Folders{"texts", "/fast/cache/dptrain"}));
  }
  {
    const Environment cache("XDG_CACHE_HOME", "not/absolute");
    EXPECT_EQ(cache_folders("/texts/kjv.txt"), (Folders{"/texts", "/home/anna/.cache/dptrain"}));
  }
  const Environment cache("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(cache_folders("kjv.txt"), (Folders{".", "/home/anna/.cache/dptrain"}));
  const Environment homeless("HOME", nullptr);
  EXPECT_EQ(cache_folders("kjv.txt"), Folders{"."});
}

}  // namespace
}  // namespace dptrain
