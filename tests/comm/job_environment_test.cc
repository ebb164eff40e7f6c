// Whether a launcher started this process, and the error of joining a job in a build without MPI.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "comm/job.h"
#include "support/expect_error.h"
#include "support/process.h"

namespace dptrain {
namespace {

constexpr std::array kVariables = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
constexpr std::array kNumbers = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
constexpr std::array kSizes = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

class JobEnvironmentTest : public ::testing::Test {
 protected:
  JobEnvironmentTest() { forget(); }
  ~JobEnvironmentTest() override { forget(); }

  static void forget() {
    for (const char* name : kVariables) ::unsetenv(name);
    for (const char* name : kSizes) ::unsetenv(name);
    for (const char* name : kNumbers) ::unsetenv(name);
  }
};

TEST_F(JobEnvironmentTest, EveryLauncherIsKnownByItsVariable) {
  EXPECT_FALSE(was_launched_in_job());
  for (const char* name : kVariables) {
    ::setenv(name, "0", 1);
    EXPECT_TRUE(was_launched_in_job()) << name;
    ::setenv(name, "", 1);
    EXPECT_FALSE(was_launched_in_job()) << name;
    ::unsetenv(name);
  }
}

TEST_F(JobEnvironmentTest, LaunchersSayHowManyTheyStarted) {
  EXPECT_EQ(launched_processes(), 1);
  for (const char* name : kSizes) {
    for (const auto& [said, processes] : {std::pair{"8", 8}, {"1", 1}, {"", 1}, {"many", 1}}) {
      ::setenv(name, said, 1);
      EXPECT_EQ(launched_processes(), processes) << name << "=" << said;
    }
    ::unsetenv(name);
  }
}

TEST_F(JobEnvironmentTest, LaunchersSayWhichOneAProcessIs) {
  EXPECT_EQ(launched_process(), 0);
  for (const char* name : kNumbers) {
    for (const auto& [said, number] : {std::pair{"3", 3}, {"0", 0}, {"", 0}, {"many", 0}, {"-1", 0}}) {
      ::setenv(name, said, 1);
      EXPECT_EQ(launched_process(), number) << name << "=" << said;
    }
    ::unsetenv(name);
  }
}

TEST_F(JobEnvironmentTest, TheFirstEndOfAHostIsLeftForTheLauncher) {
  const testing::ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "exit";
  ::unsetenv("DPTRAIN_EXIT_FILE");
  tell_launcher_of_exit(64, "nobody asked");
  ::setenv("DPTRAIN_EXIT_FILE", file.c_str(), 1);
  tell_launcher_of_exit(0, "a regular end");
  EXPECT_FALSE(std::filesystem::exists(file));
  tell_launcher_of_exit(75, "process 1 was lost");
  tell_launcher_of_exit(69, "a later one");
  EXPECT_EQ(testing::text_of(file), "75\nprocess 1 was lost\n");
  ::setenv("DPTRAIN_EXIT_FILE", (folder.path() / "of_other_host" / "exit").c_str(), 1);
  EXPECT_NO_THROW(tell_launcher_of_exit(75, "there is no such folder"));
  ::unsetenv("DPTRAIN_EXIT_FILE");
}

TEST_F(JobEnvironmentTest, TheFolderOfATrainingIsLeftForTheLauncher) {
  const testing::ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "run";
  ::unsetenv("DPTRAIN_RUN_FILE");
  tell_launcher_of_run("runs/nobody_asked");
  ::setenv("DPTRAIN_RUN_FILE", file.c_str(), 1);
  tell_launcher_of_run("runs/a b");
  EXPECT_EQ(testing::text_of(file), (std::filesystem::current_path() / "runs/a b").string() + "\n");
  ::unsetenv("DPTRAIN_RUN_FILE");
}

TEST_F(JobEnvironmentTest, WithoutMpiJoiningNamesTheOption) {
  if (DPTRAIN_WITH_MPI) GTEST_SKIP() << "MPI is built in";
  EXPECT_TRUE(job_libraries().empty());
  testing::expect_error(ExitCode::job_not_formed, {"-DDPTRAIN_MPI=ON", "launcher"}, [] { join_job({.timeout_s = 1}); });
}

TEST_F(JobEnvironmentTest, MpiIsTheOneThisWasBuiltWith) {
  if (!DPTRAIN_WITH_MPI) GTEST_SKIP() << "MPI is not built in";
  ASSERT_EQ(job_libraries().size(), 1u);
  EXPECT_GT(job_libraries()[0].loaded_major, 0);
  EXPECT_NO_THROW(job_libraries()[0].require_fit());
}

}  // namespace
}  // namespace dptrain
