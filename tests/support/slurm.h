#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "support/launch.h"
#include "support/needed_hosts.h"

namespace dptrain::testing {

/// A Slurm of two nodes on this machine (tests/support/slurm.sh) until the object ends. `srun` and Slurm's other
/// commands reach it.
class Slurm {
 public:
  Slurm() {
    const Finished started = script("start");
    if (started.exit == 0) {
      ::setenv("SLURM_CONF", lines_of(started.out).at(0).c_str(), 1);
      return;
    }
    absence_ = absent_of_hosts(started.last_error());
    EXPECT_EQ(started.exit, 77) << started.err;
  }
  ~Slurm() {
    ::unsetenv("SLURM_CONF");
    script("stop");
  }
  Slurm(const Slurm&) = delete;
  Slurm& operator=(const Slurm&) = delete;

  /// Why this machine can't have Slurm, for a test to skip; "" where it can. If the variable DPTRAIN_NEEDS_HOSTS is
  /// set, as in continuous integration, its absence is a failure.
  const std::string& absence() const { return absence_; }

 private:
  Finished script(const char* what) const {
    const Command command = {source_file("tests/support/slurm.sh"), what, folder_.path().string()};
    return Process({.command = command, .folder = "/", .timeout_s = 60, .out = {}, .err = {}}).wait();
  }

  ScratchFolder folder_;
  std::string absence_;
};

}  // namespace dptrain::testing
