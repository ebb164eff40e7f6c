// Processes that were started differently train nothing. All exit with code 76 and one sentence, which names the
// difference and both values.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <map>
#include <regex>

#include "processes/job_training.h"
#include "support/idx_files.h"

namespace dptrain::testing {
namespace {

class AgreementTest : public JobTrainingTest {
 protected:
  static std::string host() {
    std::array<char, 256> name{};
    EXPECT_EQ(::gethostname(name.data(), name.size() - 1), 0);
    return name.data();
  }
  /// The part of the message that names a difference: "<what>: <one> on process 0 on host, <other> on process N on
  /// host; ".
  static std::string difference(const std::string& what, const std::string& one, const std::string& other,
                                size_t process) {
    return fmt::format("dptrain: {}: {} on process 0 on {}, {} on process {} on {}; ", what, one, host(), other,
                       process, host());
  }
  Launched launched(const std::vector<Command>& processes) const {
    return Launch({.processes = processes, .folder = folder_.path(), .grace_s = 3}).wait();
  }
  void expect_difference(const std::vector<Command>& processes, const std::string& sentence) const {
    const Launched job = launched(processes);
    const std::vector<std::string> said = last_sentences(job, 76);
    for (const std::string& one : said) EXPECT_TRUE(one.starts_with(sentence)) << one;
    const json fault = expect_unbegun_fault(run("job"), 76, said[0].substr(std::string("dptrain: ").size()));
    EXPECT_EQ(fault["rank"], 0);
    EXPECT_EQ(fault["root"]["host"], host());
    EXPECT_FALSE(fault["ring"].empty());
  }
  /// Runs as on a separate host: the same path leads to different files in each folder.
  Command on(const std::string& host) const {
    Command command = {"/usr/bin/env", "-C", (folder_.path() / host).string()};
    const Command training_there = training(
        "job", "lenet_ddp_2cpu", 1, {"--set", "epochs=1", "--set", "dataset={name: mnist, dir: /proc/self/cwd}"});
    command.insert(command.end(), training_there.begin(), training_there.end());
    return command;
  }
  void write_data(const std::string& host) const {
    std::filesystem::create_directory(folder_.path() / host);
    for (const auto& [name, bytes] : {std::pair<std::string, std::string>{"train-images-idx3-ubyte", images_},
                                      {"train-labels-idx1-ubyte", idx_labels(kSamples)},
                                      {"t10k-images-idx3-ubyte", test_images_},
                                      {"t10k-labels-idx1-ubyte", idx_labels(kSamples)}})
      folder_.write(host + "/" + name, bytes);
  }

  static constexpr uint32_t kSamples = 64;
  std::string images_ = idx_images(kSamples, 28, 28), test_images_ = images_;
};

TEST_F(AgreementTest, OnTheNumberOfSamples) {
  write_data("a");
  images_ = idx_images(kSamples + 1, 28, 28);
  write_data("b");
  folder_.write("b/train-labels-idx1-ubyte", idx_labels(kSamples + 1));
  expect_difference({on("a"), on("b")}, difference("training samples", "64", "65", 1));
}

/// The data differ in one pixel of the training images, and then in one of the test images.
TEST_F(AgreementTest, OnEveryPixelOfTheData) {
  write_data("a");
  write_data("same");
  images_.back() ^= 1;
  write_data("train");
  images_ = test_images_;
  test_images_.back() ^= 1;
  write_data("test");
  ASSERT_EQ(launched({on("a"), on("same")}).processes[0].exit, 0) << "other files of the same bytes";
  std::filesystem::remove_all(run("job"));
  const std::map<std::string, std::string> told = {{"train", "digest of the training samples: "},
                                                   {"test", "digest of the test samples: "}};
  for (const auto& [folder, what] : told) {
    const Launched job = launched({on("a"), on("a"), on(folder)});
    const std::string digest = "([0-9a-f]{64})", host = this->host();
    const std::regex sentence(
        fmt::format("dptrain: {}{} on process 0 on {}, {} on process 2 on {}; .*", what, digest, host, digest, host));
    for (const std::string& said : last_sentences(job, 76)) {
      std::smatch digests;
      ASSERT_TRUE(std::regex_match(said, digests, sentence)) << said;
      EXPECT_NE(digests[1], digests[2]);
    }
    expect_unbegun_fault(run("job"), 76, job.processes[0].last_error().substr(std::string("dptrain: ").size()));
  }
  // The next start has no part of the failed one.
  ASSERT_EQ(launched({on("a"), on("same")}).processes[0].exit, 0);
  EXPECT_FALSE(std::filesystem::exists(run("job") / "fault.json"));
}

/// A directory with metrics belongs to another run, even if the job was to overwrite it.
TEST_F(AgreementTest, LeavesNothingInAnotherRunsDirectory) {
  Command own = training("job", "lenet_ddp_2cpu", 1, kLittleData);
  ASSERT_EQ(alone(own).exit, 0);
  const auto entries = [this] {
    std::map<std::string, std::filesystem::file_time_type> times;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run("job")))
      times[entry.path().string()] = entry.last_write_time();
    return times;
  };
  const auto before = entries();
  for (const bool overwrite : {false, true}) {
    if (overwrite) own.emplace_back("--overwrite");
    Command other = own;
    other.insert(other.end(), {"--set", "learning_rate=0.5"});
    last_sentences(launched({own, other}), 76);
    EXPECT_EQ(entries(), before);
  }
}

/// The run that the job was to resume is its own: fault.json is added to it, and nothing of it is lost.
TEST_F(AgreementTest, LeavesItsRecordBesideWhatItWasToGoOnWith) {
  const Command own = training("job", "lenet_ddp_2cpu", 1, kLittleData);
  ASSERT_EQ(launched({own, own}).processes[0].exit, 0);
  const auto text_of_summary = [this] { return text_of(run("job") / "summary.json"); };
  const std::string before = text_of_summary();
  Command again = own, other = own;
  again.emplace_back("--resume");
  other.insert(other.end(), {"--set", "learning_rate=0.5", "--resume"});
  last_sentences(launched({again, other}), 76);
  const json fault = json::parse(text_of(run("job") / "fault.json"), nullptr, false);
  ASSERT_TRUE(fault.is_object());
  EXPECT_EQ(fault["exit"], 76);
  EXPECT_NE(fault["resume"].get<std::string>().find("--resume"), std::string::npos) << fault["resume"];
  EXPECT_EQ(text_of_summary(), before);
  for (const Command& one : {again, other}) EXPECT_EQ(launched({one, one}).processes[0].exit, 0);
  EXPECT_FALSE(std::filesystem::exists(run("job") / "fault.json")) << "it went on meanwhile";
}

TEST_F(AgreementTest, OnTheBuild) {
  const Command own = training("job", "lenet_ddp_2cpu", 1, kLittleData);
  Command other = own;
  other[0] = built_file("dptrain_of_other_build");
  const auto built = [this](const std::string& binary) {
    const std::string text = alone({binary, "--version"}).out;
    return text.substr(8, text.find('\n') - 8);
  };
  EXPECT_NE(built(own[0]), built(other[0]));
  expect_difference({own, own, other}, difference("dptrain", built(own[0]), built(other[0]), 2));
}

/// Another compiler, or other flags, may give other bits for the same commit.
TEST_F(AgreementTest, OnTheCompiler) {
  const Command own = training("job", "lenet_ddp_2cpu", 1, kLittleData);
  Command other = own;
  other[0] = built_file("dptrain_of_other_compiler");
  const std::string built_by = lines_of(alone({own[0], "--version"}).out).back().substr(10);
  EXPECT_TRUE(std::regex_search(built_by, std::regex("[0-9]+\\.[0-9]+.* for "))) << built_by;
  expect_difference({own, other}, difference("compiler of dptrain", built_by, "another compiler", 1));
}

/// Initial weights and checkpoints must agree: the same path leads to different files on each host.
TEST_F(AgreementTest, OnTheWeights) {
  for (const std::string seed : {"1", "2"}) {
    Command settings = kLittleData;
    settings.insert(settings.end(), {"--set", "seed=" + seed, "--set", "steps=1", "--set", "epochs="});
    ASSERT_EQ(alone(training("of" + seed, "lenet_ddp_2cpu", 2, settings)).exit, 0);
  }
  const std::string checkpoint = "/proc/self/cwd/checkpoints/step-000001";
  for (const Command& from :
       {Command{"--set", "init={from: " + checkpoint + "/model.safetensors}"}, Command{"--resume", checkpoint}}) {
    SCOPED_TRACE(from[0]);
    std::vector<Command> processes;
    for (const std::string folder : {"of1", "of2"}) {
      Command command = {"/usr/bin/env", "-C", run(folder).string()}, settings = kLittleData;
      settings.insert(settings.end(), from.begin(), from.end());
      const Command started = training("job", "lenet_ddp_2cpu", 1, settings);
      command.insert(command.end(), started.begin(), started.end());
      processes.push_back(command);
    }
    for (const std::string& sentence : last_sentences(launched(processes), 76))
      EXPECT_TRUE(std::regex_match(sentence, std::regex("dptrain: initial weights: [0-9a-f]{64} on process 0 on "
                                                        ".+, [0-9a-f]{64} on process 1 on .+; start all processes "
                                                        "alike")))
          << sentence;
    std::filesystem::remove_all(run("job"));
  }
}

/// The processes must agree on which of them train and which serve.
TEST_F(AgreementTest, OnTheServersOfAStore) {
  const auto with_servers = [this](int servers) {
    Command settings = kLittleData;
    settings.insert(settings.end(),
                    {"--set", fmt::format("strategy={{name: kvstore, type: dist_sync, servers: {}}}", servers)});
    return training("job", "lenet_ddp_2cpu", 1, settings);
  };
  const Command one = with_servers(1), two = with_servers(2);
  expect_difference({one, one, one, one, two}, difference("strategy.servers", "1", "2", 4));
}

}  // namespace
}  // namespace dptrain::testing
