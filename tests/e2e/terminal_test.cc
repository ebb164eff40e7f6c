// What a user sees on a terminal, and how the program sets OpenMP's environment before it trains.

#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>

#include <regex>

#include "support/process.h"
#include "support/source_tree.h"

namespace dptrain {
namespace {

/// Runs the program on a terminal with this number of columns and returns everything that was written to it.
std::string shown_on_terminal(int columns, const std::vector<std::string>& arguments) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = 24;
  int terminal = -1;
  std::string binary = testing::dptrain_binary();
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    std::vector<char*> argv = {binary.data()};
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  std::string shown;
  char block[4096];
  for (ssize_t got; (got = ::read(terminal, block, sizeof block)) > 0;) shown.append(block, static_cast<size_t>(got));
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << shown;
  return shown;
}

std::vector<std::string> short_run(const std::string& out) {
  return {"--config",   testing::source_file("configs/lenet_1cpu.yaml"),
          "--set",      "epochs=1",
          "--set",      "threads=1",
          "--out",      out,
          "--overwrite"};
}

TEST(Terminal, ProgressLineHasEpochRateTimeLeftAndLoss) {
  const std::string out = ::testing::TempDir() + "dptrain_terminal_wide";
  const std::string shown = shown_on_terminal(100, short_run(out));
  const std::regex line("\r\x1b\\[Kepoch 1/1 +[0-9]+ %  loss [0-9.]+  [0-9:]+ left  [0-9,]+ samples/s");
  EXPECT_TRUE(std::regex_search(shown, line)) << shown;
  EXPECT_EQ(shown.find("loss 0.0000"), std::string::npos) << "before the first step there is no loss to show";
  EXPECT_NE(shown.find("  epoch  train loss"), std::string::npos) << "the table at the end";
}

TEST(Terminal, NarrowTerminalGetsWhatFits) {
  const std::string out = ::testing::TempDir() + "dptrain_terminal_narrow";
  const std::string shown = shown_on_terminal(30, short_run(out));
  const std::regex line("\r\x1b\\[K([^\r\n]*)");
  int lines = 0;
  for (std::sregex_iterator match(shown.begin(), shown.end(), line), end; match != end; ++match) {
    const std::string text = (*match)[1];
    if (!text.starts_with("epoch 1/1 ")) continue;
    ++lines;
    EXPECT_LT(text.size(), 30u) << text;
  }
  EXPECT_GT(lines, 0) << shown;
}

TEST(Terminal, NoRowOfATableIsWrapped) {
  const std::string shown = shown_on_terminal(45, short_run(::testing::TempDir() + "dptrain_terminal_tables"));
  const size_t table = shown.find("  epoch  train loss  test loss  accuracy\r\n");
  ASSERT_NE(table, std::string::npos) << shown;
  const size_t end = shown.find("\n1 epoch, ", table);
  ASSERT_NE(end, std::string::npos) << shown;
  for (const std::string& line : testing::lines_of(shown.substr(table, end - table)))
    EXPECT_LE(line.size(), 45u + std::string("\r").size()) << line;
}

TEST(Terminal, DevicesAreToldInLinesThatFit) {
  for (const std::string& line : testing::lines_of(shown_on_terminal(60, {"devices"})))
    EXPECT_LE(line.size(), 60u + std::string("\r").size()) << line;
}

/// The value of a variable in the environment of a process; "unset" where the variable isn't set.
std::string variable_of(const testing::Finished& finished, const std::string& name) {
  for (const std::string& entry : testing::lines_of(finished.out))
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return "unset";
}

/// The environment of the training process after its start under `env` with these settings, and as COMM the name that
/// the system has for it.
testing::Finished environment_with(const std::vector<std::string>& settings) {
  const std::string out = ::testing::TempDir() + "dptrain_openmp";
  std::string command = "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u OMP_PROC_BIND -u DPTRAIN_OPENMP_RESTARTED";
  for (const std::string& setting : settings) command += " " + setting;
  command += " " + testing::dptrain_binary() + " --config " + testing::source_file("configs/lenet_1cpu.yaml") +
             " --quiet --overwrite --out " + out + " & child=$!; for i in $(seq 200); do [ -e " + out +
             "/metrics.jsonl ] && break; sleep 0.05; done; tr '\\0' '\\n' < /proc/$child/environ; "
             "echo COMM=$(cat /proc/$child/comm); kill -KILL $child; "
             "wait $child 2> /dev/null; exit 0";
  std::filesystem::remove_all(out);
  const testing::ProcessOptions options{
      .command = {"/bin/sh", "-c", command}, .folder = ::testing::TempDir(), .out = {}, .err = {}};
  return testing::Process(options).wait();
}

TEST(OpenMpEnvironment, IdleThreadsHardlySpinUnlessTheUserSaysSo) {
  const auto plain = environment_with({});
  EXPECT_EQ(variable_of(plain, "GOMP_SPINCOUNT"), "2000");
  EXPECT_EQ(variable_of(plain, "OMP_WAIT_POLICY"), "unset");
  EXPECT_EQ(variable_of(plain, "DPTRAIN_OPENMP_RESTARTED"), "1");
  EXPECT_EQ(variable_of(plain, "COMM"), "dptrain") << "top, ps and pkill show it under its name";

  const auto chosen = environment_with({"OMP_WAIT_POLICY=active"});
  EXPECT_EQ(variable_of(chosen, "OMP_WAIT_POLICY"), "active");
  EXPECT_EQ(variable_of(chosen, "DPTRAIN_OPENMP_RESTARTED"), "unset") << "nothing to change, no second start";

  const auto bound = environment_with({"OMP_PROC_BIND=true", "GOMP_SPINCOUNT=100"});
  EXPECT_EQ(variable_of(bound, "OMP_PROC_BIND"), "false");
  EXPECT_EQ(variable_of(bound, "GOMP_SPINCOUNT"), "100");
  EXPECT_EQ(variable_of(bound, "OMP_WAIT_POLICY"), "unset");
}

}  // namespace
}  // namespace dptrain
