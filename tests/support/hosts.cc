#include "support/hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "support/needed_hosts.h"

namespace dptrain::testing {
namespace {

constexpr const char* kNetwork = "10.77.0.0/24";

std::string script_path() { return source_file("tests/support/namespaces.sh"); }

Finished script(Command command) {
  command.insert(command.begin(), script_path());
  return Process({.command = command, .folder = "/", .timeout_s = 30, .out = {}, .err = {}}).wait();
}

void expect_done(const Command& command) {
  const Finished done = script(command);
  EXPECT_EQ(done.exit, 0) << done.err;
}

}  // namespace

Hosts::Hosts(int count) : count_(count), name_(fmt::format("dptrain-{}", ::getpid())) {
  const Finished made = script({"add", name_, std::to_string(count)});
  if (made.exit == 77) {
    absence_ = absent_of_hosts(made.last_error());
  } else {
    EXPECT_EQ(made.exit, 0) << made.err;
  }
}

Hosts::~Hosts() { script({"delete", name_}); }

Command Hosts::on(int host) const { return {script_path(), "run", name_, std::to_string(host)}; }

std::string Hosts::agent() const { return script_path() + " agent " + name_; }

LaunchOptions Hosts::launch_options(const std::vector<Command>& processes, const std::filesystem::path& folder) const {
  std::string hosts;
  for (int host = 1; host <= count_; ++host)
    hosts += fmt::format("{}10.77.0.{}:{}", host == 1 ? "" : ",", host,
                         (static_cast<int>(processes.size()) + count_ - host) / count_);
  LaunchOptions options{.processes = processes, .folder = folder};
  options.on = on(1);
  options.flags = {
      "--mca", "plm_rsh_agent",      agent(),  "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", kNetwork,
      "--mca", "oob_tcp_if_include", kNetwork, "-H",    hosts};
  return options;
}

void Hosts::slow(const std::string& rate) const { expect_done({"slow", name_, rate}); }

void Hosts::wait_until_reached(int host) const {
  for (const auto& [from, to] : {std::pair{1, host}, {host, 1}}) {
    Command connects = on(from);
    connects.insert(connects.end(),
                    {"/usr/bin/timeout", "1", "/bin/bash", "-c", fmt::format("exec 3<>/dev/tcp/10.77.0.{}/9", to)});
    // No program listens on the port, so a host that is reached refuses the connection.
    for (int tries = 0; Process({.command = connects, .folder = "/", .timeout_s = 10, .out = {}, .err = {}})
                            .wait()
                            .err.find("refused") == std::string::npos;
         ++tries)
      ASSERT_LT(tries, 60) << "host " << to << " isn't reached from host " << from;
  }
}

void Hosts::set_link(int host, bool up) const {
  expect_done({"link", name_, std::to_string(host), up ? "up" : "down"});
}

void Hosts::lose(int from, int to) const { expect_done({"lose", name_, std::to_string(from), std::to_string(to)}); }

void Hosts::wait_until_idle(double timeout_s) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  const auto running = [this] { return script({"pids", name_}).out; };
  while (!running().empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (const std::string& pid : lines_of(running())) {
    std::string command = text_of("/proc/" + pid + "/cmdline");
    std::ranges::replace(command, '\0', ' ');
    ADD_FAILURE() << "after " << timeout_s << " s there still runs " << command;
  }
}

}  // namespace dptrain::testing
