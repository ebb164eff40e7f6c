// The processes of a job read only their parts of a data set in uncompressed files, and train on it as on a data set in
// memory.
#include <algorithm>
#include <array>

#include "data/settled.h"
#include "processes/job_training.h"
#include "support/idx_files.h"

namespace dptrain::testing {
namespace {

constexpr uint32_t kImages = 4000, kTestImages = 300;
constexpr int64_t kPixelBytes = int64_t{kImages} * 28 * 28, kTestBytes = int64_t{kTestImages} * 28 * 28;

class JobDataTest : public JobTrainingTest {
 protected:
  void SetUp() override {
    JobTrainingTest::SetUp();
    std::filesystem::create_directory(plain_);
    std::filesystem::create_directory(packed_);
    write("train-images-idx3-ubyte", idx_images(kImages, 28, 28));
    write("train-labels-idx1-ubyte", idx_labels(kImages));
    write("t10k-images-idx3-ubyte", idx_images(kTestImages, 28, 28));
    write("t10k-labels-idx1-ubyte", idx_labels(kTestImages));
  }
  void write(const std::string& name, const std::string& bytes) const {
    folder_.write("plain/" + name, bytes);
    folder_.write("packed/" + name + ".gz", gzip(bytes));
  }

  /// The summary of a run in four processes on the files of `dir`.
  json trained(const std::string& name, const std::filesystem::path& dir, const std::string& partition,
               const Command& more = {}) const {
    Command settings = {"--set", "steps=30",
                        "--set", "epochs=",
                        "--set", "batch_size=64",
                        "--set", "dataset={name: mnist, dir: " + dir.string() + ", partition: " + partition + "}"};
    settings.insert(settings.end(), more.begin(), more.end());
    const Launched job = launch_processes(std::vector<Command>(4, training(name, "lenet_ddp_2cpu", 1, settings)));
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return json::parse(text_of(run(name) / "summary.json"));
  }
  static int64_t of_dataset(const json& summary, size_t process, const char* figure) {
    return summary["environment"]["processes"][process]["dataset"][figure].get<int64_t>();
  }

  std::filesystem::path plain_ = folder_.path() / "plain", packed_ = folder_.path() / "packed";
};

TEST_F(JobDataTest, AProcessReadsItsPartOfUncompressedFilesAlone) {
  wait_until_settled(plain_ / "t10k-images-idx3-ubyte");
  const json packed = trained("packed", packed_, "by_process");
  const json first = trained("first", plain_, "by_process"), second = trained("second", plain_, "by_process");
  EXPECT_EQ(first["weights_hash"], packed["weights_hash"]);
  EXPECT_EQ(second["weights_hash"], packed["weights_hash"]);
  // At most all of the test files, a quarter of the training images rounded up to blocks, and all labels.
  const int64_t part = kPixelBytes / 4 + kTestBytes + 4 * 4096 + kImages + kTestImages;
  for (const size_t process : {0u, 1u, 2u, 3u}) {
    EXPECT_GE(of_dataset(packed, process, "held_bytes"), kPixelBytes) << "gzip is unpacked whole";
    EXPECT_LE(of_dataset(second, process, "held_bytes"), 4 * (kImages + kTestImages)) << "labels alone";
    EXPECT_LE(of_dataset(second, process, "read_bytes"), part) << process;
    EXPECT_GE(of_dataset(second, process, "read_bytes"), kPixelBytes / 4) << process;
    // If no digests were stored, one process has read everything to compute them.
    if (process > 0) {
      EXPECT_LE(of_dataset(first, process, "read_bytes"), part) << process;
    }
  }
  EXPECT_GE(of_dataset(first, 0, "read_bytes"), kPixelBytes + kTestBytes);
}

/// Of 12 shards four ranks have 4, 4, 2 and 2. A process's part of the data is as large as its part of a batch.
TEST_F(JobDataTest, AProcessOfFewerShardsReadsFewerImages) {
  wait_until_settled(plain_ / "t10k-images-idx3-ubyte");
  const Command shards = {"--set", "shards=12", "--set", "batch_size=60"};
  trained("first", plain_, "by_process", shards);
  const json summary = trained("second", plain_, "by_process", shards);
  const int64_t besides = kTestBytes + 4 * 4096 + kImages + kTestImages;
  const std::array<int64_t, 4> parts = {4, 4, 2, 2};
  for (size_t process = 0; process < parts.size(); ++process) {
    const int64_t part = kPixelBytes * parts[process] / 12;
    EXPECT_LE(of_dataset(summary, process, "read_bytes"), part + besides) << process;
    EXPECT_GE(of_dataset(summary, process, "read_bytes"), part) << process;
  }
}

TEST_F(JobDataTest, BatchesDrawnFromAllImagesAreTheSameToo) {
  const json packed = trained("packed", packed_, "global"), plain = trained("plain", plain_, "global");
  EXPECT_EQ(plain["weights_hash"], packed["weights_hash"]);
  EXPECT_LE(of_dataset(plain, 3, "held_bytes"), 4 * (kImages + kTestImages));
}

TEST_F(JobDataTest, TheSummaryHasARecordOfEachProcess) {
  const json summary = trained("job", plain_, "global");
  const json& processes = summary["environment"]["processes"];
  ASSERT_EQ(processes.size(), 4u);
  for (size_t process = 0; process < 4; ++process) {
    EXPECT_EQ(processes[process]["process"], process);
    EXPECT_EQ(processes[process]["host"], summary["final"]["devices"][process]["host"]);
    EXPECT_EQ(processes[process]["cpu"], summary["environment"]["cpu"]);
    EXPECT_EQ(processes[process]["devices"], json({"cpu:0"}));
    EXPECT_EQ(processes[process]["threads"], json({1}));
  }
}

}  // namespace
}  // namespace dptrain::testing
