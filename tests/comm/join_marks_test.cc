// Which processes are missing, according to a process that waits for the others of its job.
#include "comm/join_marks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "support/idx_files.h"

namespace dptrain {
namespace {

using testing::ScratchFolder;

class JoinMarksTest : public ::testing::Test {
 protected:
  ~JoinMarksTest() override {
    for (const char* name : {"OMPI_MCA_orte_jobfam_session_dir", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "OMPI_COMM_WORLD_RANK", "DPTRAIN_HOSTS"})
      ::unsetenv(name);
  }
  /// The marks as a process of a job sees them, with `here` processes on this host.
  JoinMarks marks_of(int process, int processes, int here) const {
    ::setenv("OMPI_MCA_orte_jobfam_session_dir", folder_.path().c_str(), 1);
    ::setenv("OMPI_COMM_WORLD_RANK", std::to_string(process).c_str(), 1);
    ::setenv("OMPI_COMM_WORLD_SIZE", std::to_string(processes).c_str(), 1);
    ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(here).c_str(), 1);
    return JoinMarks(launcher_);
  }
  static std::string host() {
    std::array<char, 256> name = {};
    EXPECT_EQ(::gethostname(name.data(), name.size() - 1), 0);
    return name.data();
  }

  ScratchFolder folder_;
  int64_t launcher_ = ::getpid();  ///< plays mpirun
};

TEST_F(JoinMarksTest, OnOneHostNameThoseThatLeftNone) {
  const JoinMarks second = marks_of(1, 3, 3);
  EXPECT_EQ(second.missing(), ": processes 0, 2 are missing");
  EXPECT_TRUE(second.speaks_for_job());
  marks_of(2, 3, 3);
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  EXPECT_EQ(second.missing(), ": process 0 is missing");
  EXPECT_TRUE(second.speaks_for_job());
  EXPECT_TRUE(marks_of(0, 3, 3).speaks_for_job());
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  EXPECT_FALSE(second.speaks_for_job()) << "the first one does";
  EXPECT_EQ(second.missing(), ": all 3 are present, but MPI has not connected them");
}

TEST_F(JoinMarksTest, NameTheFirstOfMany) {
  EXPECT_EQ(marks_of(2, 20, 20).missing(), ": processes 0, 1, 3, 4, 5, 6, 7, 8 and 11 more are missing");
}

TEST_F(JoinMarksTest, OverHostsCountThoseOfThisOne) {
  const JoinMarks marks = marks_of(4, 6, 2);
  EXPECT_EQ(marks.missing(), ": on host " + host() + ", 1 of 2 are present");
  EXPECT_TRUE(marks.speaks_for_job()) << "the first one of the job may be missing";
  ::setenv("DPTRAIN_HOSTS", "a, b, c", 1);
  EXPECT_EQ(marks.missing(), ": on host " + host() + ", 1 of 2 are present; the hosts of the job are a, b, c");
  EXPECT_TRUE(marks_of(0, 6, 2).speaks_for_job());
  const JoinMarks fifth = marks_of(5, 6, 2);
  EXPECT_FALSE(fifth.speaks_for_job()) << "another one of its host does";
}

TEST_F(JoinMarksTest, OnceTheirFolderIsGoneKnowNothing) {
  const JoinMarks second = marks_of(1, 3, 3);
  std::filesystem::remove_all(folder_.path());
  EXPECT_EQ(second.missing(), "");
  EXPECT_FALSE(second.speaks_for_job());
}

TEST_F(JoinMarksTest, TellWhoHasDiedOnTheWay) {
  const JoinMarks first = marks_of(0, 3, 3);
  // Another process leaves its mark and ends, with or without having joined.
  const auto comes_and_goes = [this](int number, bool joins) {
    const pid_t child = ::fork();
    if (child == 0) {
      const JoinMarks marks = marks_of(number, 3, 3);
      if (joins) marks.release();
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    return child;
  };
  comes_and_goes(1, true);
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_FALSE(first.find_dead()) << "it had joined";
  EXPECT_EQ(first.missing(), ": process 2 is missing");
  const pid_t dead = comes_and_goes(2, false);
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  const auto found = first.find_dead();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, 2);
  EXPECT_EQ(found->pid, dead);
  EXPECT_EQ(first.missing(), ": process 2 is missing");
  EXPECT_TRUE(marks_of(0, 3, 3).find_dead());
}

TEST_F(JoinMarksTest, TellWhoHasEndedByItself) {
  const JoinMarks second = marks_of(1, 3, 3), first = marks_of(0, 3, 3);
  EXPECT_FALSE(first.find_ended());
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  second.note_end(64);
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  const auto found = first.find_ended();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, 1);
  EXPECT_EQ(found->exit_code, 64);
  EXPECT_FALSE(first.find_dead());
}

/// A killed mpirun may have left its folder, and another mpirun may get its pid.
TEST_F(JoinMarksTest, KnowNothingOfAnotherLaunchersProcesses) {
  const pid_t child = ::fork();
  if (child == 0) {
    launcher_ = 1;
    marks_of(1, 3, 3);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(std::filesystem::exists(folder_.path() / "dptrain-joins-1"));
  const JoinMarks marks = marks_of(0, 3, 3);
  EXPECT_FALSE(marks.find_dead());
  EXPECT_EQ(marks.missing(), ": processes 1, 2 are missing");
}

TEST_F(JoinMarksTest, TheFirstOneThatLivesSpeaks) {
  const pid_t child = ::fork();
  if (child == 0) {
    marks_of(0, 3, 3);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(marks_of(1, 3, 3).speaks_for_job());
}

TEST_F(JoinMarksTest, WithoutAFolderKnowNothing) {
  const JoinMarks alone;
  EXPECT_EQ(alone.missing(), "");
  EXPECT_TRUE(alone.speaks_for_job());
  ::setenv("OMPI_MCA_orte_jobfam_session_dir", (folder_.path() / "absent").c_str(), 1);
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  const JoinMarks unwritten;
  EXPECT_EQ(unwritten.missing(), "");
  EXPECT_FALSE(unwritten.speaks_for_job());
}

}  // namespace
}  // namespace dptrain
