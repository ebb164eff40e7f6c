// NCCL between two processes that share one GPU. NCCL takes it for two GPUs if NCCL_HOSTID differs. So the tests of
// communicators, of recording and of aborts run on a machine with a single GPU. Each process is this program, started
// anew so that it hasn't inherited a CUDA context.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "comm/process_pair.h"
#include "device/cuda_probe.h"
#include "device/with_cuda.h"
#include "support/idx_files.h"
#include "support/process.h"

namespace dptrain {
namespace {

/// The tests that ranks of two processes can run. Tests in which threads of one process count together are left out.
constexpr const char* kFilter =
    "--gtest_filter=*nccl_pair*:NcclWorldTest.*"
    "-AbsentKinds*:*/AbsentKinds*:*CommCountsTest*:*NobodyLeavesABarrier*:*StartingWaitsForNobody*:*OneGpuTwice*";

/// For NCCL the other process is on another host, which it reaches over TCP.
testing::ProcessOptions half_of_pair(const std::filesystem::path& folder, const std::filesystem::path& file,
                                     const std::string& number) {
  return {.command = {"/usr/bin/env", "--unset=GTEST_TOTAL_SHARDS", "--unset=GTEST_SHARD_INDEX", "--unset=GTEST_OUTPUT",
                      std::string(ProcessPair::kVariable) + "=" + file.string() + ":" + number,
                      "NCCL_HOSTID=dptrain-" + number, "NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1",
                      "NCCL_MNNVL_ENABLE=0", "NCCL_RAS_ENABLE=0", "NCCL_DEBUG=WARN", "DPTRAIN_CUDA_SIM_DEVICES=1",
                      // The two processes take turns on the GPU, so each uses little of it, and no stream waits behind
                      // another.
                      "NCCL_MAX_CTAS=1", "CUDA_DEVICE_MAX_CONNECTIONS=32",
                      std::filesystem::read_symlink("/proc/self/exe").string(), kFilter},
          .folder = folder,
          .timeout_s = 480,
          .out = "",
          .err = ""};
}

int passed_tests(const std::string& out) {
  const std::string words = "[  PASSED  ] ";
  const size_t place = out.rfind(words);
  return place == std::string::npos ? 0 : std::atoi(out.c_str() + place + words.size());
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// The tests that failed or were last begun, then NCCL's warnings, then each process's output: the first lines tell
/// most.
std::string told(const testing::Finished& finished) {
  std::string names, all, last, warnings;
  bool fails = false;
  for (const std::string& line : testing::lines_of(finished.out)) {
    // NCCL prints warnings on stdout, between other lines.
    if (contains(line, "NCCL WARN")) {
      warnings += line.substr(line.find("NCCL WARN")) + '\n';
      continue;
    }
    if (line.starts_with("[ RUN")) last = line;
    if (line.starts_with("[  FAILED  ]") || line.starts_with("[  SKIPPED ]")) names += line + '\n';
    fails = (fails || contains(line, ": Failure") || contains(line, "C++ exception")) && !line.starts_with("[");
    if (fails) all += line + '\n';
  }
  return names + last + '\n' + warnings + all + finished.err;
}

/// Runs alone, because two processes on one GPU wait for each other's turns.
TEST(LongNcclPairTest, TwoProcessesOnOneGpuPassTheTestsOfCommunicators) {
  if (!kWithNccl || cuda_devices().empty()) GTEST_SKIP() << "needs NCCL and a GPU: " << cuda_absence();
  const testing::ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "pair";
  ProcessPair::make_file(file);
  testing::Process first(half_of_pair(folder.path(), file, "0")), second(half_of_pair(folder.path(), file, "1"));
  for (testing::Process* const process : {&first, &second}) {
    const testing::Finished finished = process->wait();
    if (finished.exit != 0 || passed_tests(finished.out) < 60 || contains(finished.out, "SKIPPED"))
      ADD_FAILURE() << "exit " << finished.exit << ", " << passed_tests(finished.out) << " passed\n" << told(finished);
  }
}

}  // namespace
}  // namespace dptrain
