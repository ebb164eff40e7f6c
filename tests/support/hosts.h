#pragma once

#include <string>
#include <vector>

#include "support/launch.h"

namespace dptrain::testing {

/// Some "hosts" on this machine, as network namespaces (tests/support/namespaces.sh), until the object ends. One object
/// a process at a time.
class Hosts {
 public:
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  /// Why this machine can't have them, for a test to skip; "" where it can. Where the variable DPTRAIN_NEEDS_HOSTS is
  /// set, as in continuous integration, that is a failure.
  const std::string& absence() const { return absence_; }

  /// What a command begins with, to run on one of them.
  Command on(int host) const;
  /// What reaches them, as ssh does.
  std::string agent() const;

  /// A job with processes on each of them, by number, started on the first.
  LaunchOptions launch_options(const std::vector<Command>& processes, const std::filesystem::path& folder) const;

  /// Holds every link to a rate of tc's, such as "1gbit".
  void slow(const std::string& rate) const;
  /// Blocks until the first host and this one reach each other, as they do some time after the link is there again.
  void wait_until_reached(int host) const;
  /// Cuts a host off, or connects it again.
  void set_link(int host, bool up) const;
  /// All that one of them sends to another is lost from now on, and nothing of what it gets from there.
  void lose(int from, int to) const;
  /// Blocks until nothing runs on any of them; fails the test where something still does after that.
  void wait_until_idle(double timeout_s) const;

 private:
  int count_;
  std::string name_;
  std::string absence_;
};

}  // namespace dptrain::testing
