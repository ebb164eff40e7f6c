// Whether a launcher started this process, and what joining says where MPI isn't built in.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "comm/job.h"
#include "support/expect_error.h"

namespace dptrain {
namespace {

constexpr std::array kVariables = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};

class JobEnvironmentTest : public ::testing::Test {
 protected:
  JobEnvironmentTest() {
    for (const char* name : kVariables) ::unsetenv(name);
  }
  ~JobEnvironmentTest() override {
    for (const char* name : kVariables) ::unsetenv(name);
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

TEST_F(JobEnvironmentTest, WithoutMpiJoiningNamesTheOption) {
  if (DPTRAIN_WITH_MPI) GTEST_SKIP() << "MPI is built in";
  EXPECT_TRUE(job_libraries().empty());
  testing::expect_error(ExitCode::job_not_formed, {"-DDPTRAIN_MPI=ON", "launcher"}, [] { join_job(1); });
}

TEST_F(JobEnvironmentTest, MpiIsTheOneThisWasBuiltWith) {
  if (!DPTRAIN_WITH_MPI) GTEST_SKIP() << "MPI is not built in";
  ASSERT_EQ(job_libraries().size(), 1u);
  EXPECT_GT(job_libraries()[0].loaded_major, 0);
  EXPECT_NO_THROW(job_libraries()[0].require_fit());
}

}  // namespace
}  // namespace dptrain
