#pragma once

#include <string>
#include <vector>

#include "support/launch.h"

namespace dptrain::testing {

/// Several "hosts" on this machine, as network namespaces (tests/support/namespaces.sh), until the object ends. A
/// process may have one such object at a time.
class Hosts {
 public:
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  /// Why this machine can't have such hosts, for a test to skip; "" where it can. If the variable DPTRAIN_NEEDS_HOSTS
  /// is set, as in continuous integration, their absence is a failure.
  const std::string& absence() const { return absence_; }

  /// The words to put before a command to run it on one of the hosts.
  Command on(int host) const;
  /// A command that reaches the hosts, as ssh does.
  std::string agent() const;

  /// A job whose processes are spread over the hosts in order, started on the first host.
  LaunchOptions launch_options(const std::vector<Command>& processes, const std::filesystem::path& folder) const;

  /// Limits every link to a rate in tc's notation, such as "1gbit".
  void slow(const std::string& rate) const;
  /// Blocks until the first host and this one reach each other: that takes a while after the link is up again.
  void wait_until_reached(int host) const;
  /// Disconnects a host, or connects it again.
  void set_link(int host, bool up) const;
  /// From now on drops everything that host `from` sends to host `to`. The other direction still works.
  void lose(int from, int to) const;
  /// Blocks until no process runs on any of the hosts; fails the test if one still runs after `timeout_s`.
  void wait_until_idle(double timeout_s) const;

 private:
  int count_;
  std::string name_;
  std::string absence_;
};

}  // namespace dptrain::testing
