// User mistakes are refused before anything begins: an exit code for scripts, and one sentence that says where, what
// was expected, what was given and what to do.
#include <fmt/format.h>

#include <cstdlib>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;

class RefusalsTest : public testing::CommandTest {
 protected:
  /// Expects the refusal of digits.yaml with `line` in place of its line for that key, line 5.
  void expect_line_refused(const std::string& line, int code, Arguments words) const {
    SCOPED_TRACE(line);
    const std::string key = line.substr(0, line.find(':'));
    std::string others;
    for (const auto& own : testing::lines_of(text("digits.yaml")))
      if (!own.starts_with(key + ":")) others += own + "\n";
    auto lines = testing::lines_of(others);
    lines.insert(lines.begin() + 4, line);
    folder_.write("a.yaml", fmt::format("{}\n", fmt::join(lines, "\n")));
    words.insert(words.begin(), "a.yaml:5");
    expect_refused({"--config", "a.yaml", "--out", "run"}, code, words);
  }
  void expect_text_refused(const std::string& yaml, const Arguments& words) const {
    folder_.write("a.yaml", yaml);
    expect_refused({"--config", "a.yaml", "--out", "run"}, 78, words);
  }
  /// Expects the refusal of a data set of four small files, some of which have been damaged.
  void expect_data_refused(int code, const Arguments& words) const {
    expect_refused(training("run", {"dataset={name: mnist, dir: .}"}), code, words);
  }
};

TEST_F(RefusalsTest, UnknownKeys) {
  expect_line_refused("epoch: 3", 78, {"epoch", "unknown key", "did you mean 'epochs'?"});
  expect_line_refused("strategy: {name: ddp, bucket_md: 3}", 78, {"strategy.bucket_md", "did you mean 'bucket_mb'?"});
  expect_line_refused("optimizer: {name: sgd, lr: 0.1}", 78,
                      {"optimizer.lr: unknown key, did you mean 'learning_rate' at the top level?"});
}

TEST_F(RefusalsTest, AKeyThatStandsAmongTheFlagsIsAdvisedSet) {
  const auto refused = [this](const Arguments& more, const std::string& advice) {
    Arguments arguments = training("run");
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refused(arguments, 64, {advice});
  };
  refused({"--batch_size", "32"}, "'--batch_size' is not an argument of dptrain train; write --set batch_size=32");
  refused({"--links", "links.yaml"}, "--set 'links={gbps: 1}'; files are for dptrain plan");
  refused({"--batch-size=32"}, "write --set batch_size=32");
  refused({"--epochs"}, "write --set epochs=VALUE");
  refused({"--set", "batch_size", "32"}, "write --set batch_size=32");
  refused({"--set", "batch_size", "=", "32"}, "write --set batch_size=32");
  refused({"--lr", "0.1"}, "'--lr' is not an argument of dptrain train; write --set learning_rate=0.1");
  refused({"epochs=3"}, "'epochs=3' is not an argument of dptrain train; write --set epochs=3");
  refused({"strategy.bucket_mb=3"}, "write --set strategy.bucket_mb=3");
  refused({"strategy={name:", "ddp}"}, "put the value of --set in quotes: --set 'strategy=...'");
  refused({"strategy={name: ddp}"}, "write --set 'strategy={name: ddp}'");
  refused({"--quite"}, "did you mean '--quiet'?");
}

TEST_F(RefusalsTest, AFileInPlaceOfAWayToBeginIsAdvisedFrom) {
  for (const char* file : {"runs/other", "weights.safetensors"})
    expect_line_refused(fmt::format("init: {}", file), 78,
                        {"init", "got '", fmt::format("write init: {{from: {}}}", file)});
}

TEST_F(RefusalsTest, WhatIsNotThereIsAdvisedWhatIs) {
  for (const Arguments& command : {Arguments{"hash", "runs/absent"},
                                   {"table", "runs/absent"},
                                   {"eval", "--config", "digits.yaml", "--checkpoint", "runs/absent"}})
    expect_refused(command, 66, {"runs/absent", "there is no run in runs; train one"});
  std::filesystem::create_directories(path("runs/this"));
  folder_.write("runs/this/config.yaml", text("digits.yaml"));
  expect_failed(run({"hash", "runs/absent"}), 66, {"runs/absent", "name for instance runs/this"});
}

TEST_F(RefusalsTest, AnOptionOfNoStrategyIsAdvisedAStrategyThatTakesIt) {
  const testing::Arguments option = {"strategy=", "strategy.bucket_mb=5"};
  expect_refused(training("run", option), 78, {"strategy: expected one of", "mapping {bucket_mb: 5}; add name: ddp"});
  expect_refused(training("run", {option[0], option[1], "devices=cpu:0"}), 78, {"add name: ddp"});
  expect_refused(training("run", {option[0], "strategy.none=5", "devices=cpu:0"}), 78, {"add name: single"});
}

TEST_F(RefusalsTest, WrongTypes) {
  expect_line_refused("batch_size: many", 78, {"batch_size", "expected an integer", "got 'many'", "batch_size: "});
  expect_line_refused("learning_rate: [1, 2]", 78, {"learning_rate", "expected a number", "got the list [1, 2]"});
  expect_line_refused("model: 5", 78, {"model", "lenet, resnet18"});
}

TEST_F(RefusalsTest, ValuesOutOfRange) {
  expect_line_refused("batch_size: 0", 78, {"batch_size", "expected an integer from 1", "got 0"});
  expect_line_refused("learning_rate: -0.1", 78, {"learning_rate", "over 0", "got -0.1"});
  expect_line_refused("seed: -1", 78, {"seed", "got -1"});
}

TEST_F(RefusalsTest, DuplicateKeys) {
  expect_text_refused(text("digits.yaml") + "model: lenet\n",
                      {"a.yaml:10", "model once", "line 1", "line 10", "keep one"});
}

TEST_F(RefusalsTest, AliasesAndBombs) {
  expect_text_refused("model: &m lenet\nname: *m\n", {"a.yaml:1", "plain values", "anchor", "write the value out"});
  expect_text_refused("a: " + std::string(100'000, '[') + "\n", {"a.yaml:1", "brackets"});
  expect_text_refused("a: " + std::string(40, '[') + std::string(40, ']') + "\n", {"a.yaml:1", "levels"});
  expect_text_refused("", {"a.yaml:1", "empty file", "model: lenet"});
}

TEST_F(RefusalsTest, SeveralMistakesAreALineEach) {
  folder_.write("a.yaml", "model: lenet\ndataset: mnist\nbatch_size: 0\nlearning_rate: 0\nepochs: 0\n");
  const testing::Finished finished = run({"--config", "a.yaml", "--out", "run"});
  expect_failed(finished, 78, {"a.yaml:3", "batch_size", "(and 2 more)"});
  EXPECT_EQ(testing::lines_of(finished.err).size(), 4u) << finished.err;
  EXPECT_FALSE(exists("run"));
}

TEST_F(RefusalsTest, DevicesThatAreNotThere) {
  for (const char* device : {"cpu:64", "cuda:99"})
    expect_line_refused(fmt::format("devices: ['{}']", device), 71,
                        {device, "not on this machine", "there are", "cpu:0 to cpu:63", "--devices cpu:0-1"});
  Arguments arguments = training("run");
  arguments.insert(arguments.end(), {"--devices", "cuda:99"});
  expect_refused(arguments, 71, {"dptrain: --devices: cuda:99 is not on this machine", "--devices cpu:0-1"});
  arguments.back() = "gpu";
  expect_refused(arguments, 78, {"--devices", "expected a device list", "got 'gpu'"});
}

/// A setting that depends on the number of devices is checked only if the devices are a list.
TEST_F(RefusalsTest, AMistakeInTheDevicesHidesNoOther) {
  for (const char* devices : {"devices=gpu", "devices=cuda:98-99"}) {
    const Finished finished =
        run(training("run", {devices, "threads=[1, 1, 1]", "epochs=x", "foo=1", "schedule={name: cosine, min: 5}"}));
    const bool is_list = devices == std::string("devices=cuda:98-99");
    EXPECT_EQ(finished.exit, 78);
    for (const char* words : {"devices: ", "epochs: expected", "foo: unknown", "schedule: expected its min",
                              is_list ? "each of the 2 devices" : "gpu"})
      EXPECT_NE(finished.err.find(words), std::string::npos) << words << "\n" << finished.err;
    EXPECT_EQ(finished.err.find("threads: ") != std::string::npos, is_list) << finished.err;
  }
}

TEST_F(RefusalsTest, BatchesSmallerThanTheDevices) {
  expect_line_refused("batch_size: 1", 78, {"batch_size", "at least one sample for each of the 2 devices", "got 1"});
}

TEST_F(RefusalsTest, StrategiesThatDoNotFitTheDevices) {
  expect_line_refused("strategy: single", 78, {"strategy", "exactly one device", "got 2"});
}

TEST_F(RefusalsTest, ModelsThatDoNotFitTheImages) {
  expect_refused(training("run", {"dataset={name: synthetic, shape: [1, 8, 8]}"}), 78,
                 {"lenet", "16 x 16", "got 8 x 8", "choose another"});
}

TEST_F(RefusalsTest, SplitsThatLeaveTheStatisticsThatEvaluateAsTheyBegan) {
  const std::string net =
      "model={layers: [conv: {channels: 4, kernel: 5, stride: 4}, batch_norm, flatten, linear: "
      "classes]}";
  const Arguments words = {"batch_norm: local", "the first device",
                           "more weight in split, or write batch_norm: average"};
  expect_refused(training("run", {net, "split=[0, 1]"}), 78, words);
  expect_refused({"compare", "--config", "digits.yaml", "--set", net, "--set", "split=[0, 1]", "--strategies",
                  "single,ddp", "--out", "run"},
                 78, words);
  expect_refused({"verify", "--config", "digits.yaml", "--set", net, "--set", "split=[0, 1]"}, 78, words);
}

TEST_F(RefusalsTest, MissingFiles) {
  expect_refused({"--config", "nothing.yaml", "--out", "run"}, 66,
                 {"nothing.yaml", "no such configuration", "looked in"});
  for (const char* name : {"digit.yaml", "digit", "lenet_ddp_2cpus", "lenet_ddp"})
    expect_refused({"--config", name, "--out", "run"}, 66, {"no such configuration; did you mean '"});
  expect_refused({"--config", "Bert", "--out", "run"}, 66,
                 {"Bert: no such configuration; did you mean 'bert_layers_1cpu', 'bert_model_parallel_2cpu', "
                  "'bert_small_1cpu', 'bert_data_parallel_4gpu', 'bert_data_parallel_balanced_4gpu', "
                  "'bert_data_parallel_output1_4gpu'?"});
  expect_data_refused(66, {"train-images-idx3-ubyte", "expected", "got neither", "dir:"});
}

TEST_F(RefusalsTest, FoldersInPlaceOfConfigurations) {
  std::filesystem::create_directory(path("earlier"));
  const std::string sentence = "earlier: expected a configuration, got a folder; ";
  expect_refused({"--config", "earlier", "--out", "run"}, 66, {sentence + "name a YAML file in it"});
  folder_.write("earlier/config.yaml", "");
  expect_refused({"--config", "earlier", "--out", "run"}, 66, {sentence + "write --config earlier/config.yaml"});
  std::filesystem::create_directory(path("digits"));
  EXPECT_EQ(run({"--config", "digits", "--dump-config"}).exit, 0) << "digits.yaml lies beside it";
}

/// These mistakes show only when the run directory already exists.
TEST_F(RefusalsTest, MistakesOfAllKindsLeaveNoRunDirectory) {
  const Arguments missing = {"absent", "nothing there"};
  expect_refused(training("run", {"init={from: absent}"}), 66, missing);
  Arguments resuming = training("run");
  resuming.insert(resuming.end(), {"--resume", "absent"});
  expect_refused(resuming, 66, missing);
  expect_refused(training("run", {"memory_limit=1000"}), 71, {"limit of 1000"});
  expect_refused({"--config", "digits.yaml", "--set", "memory_limit=1000"}, 71, {"limit of 1000"});
}

TEST_F(RefusalsTest, ProcessesOfSrunThatHaveNoWayToJoin) {
  ::setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  expect_refused(training("run"), 69, {"srun started 4 processes that don't know each other", "srun --mpi=pmix"});
  ::setenv("SLURM_STEP_NUM_TASKS", "1", 1);
  train("alone");
  ::unsetenv("SLURM_STEP_NUM_TASKS");
}

TEST_F(RefusalsTest, AdviceOnAListsElementIsNoAssignment) {
  const auto set = [&](const std::string& assignment) { return training("run", {"dataset=synthetic", assignment}); };
  expect_refused(set("augment=[random_crop: {padding: 0}]"), 78,
                 {"augment[0].random_crop.padding", "write for instance padding: 1"});
  expect_refused(set("dataset.shape=[1, 0, 28]"), 78, {"dataset.shape[1]", "in its place"});
}

TEST_F(RefusalsTest, WinogradOfMachinesWithoutItsInstructions) {
  ::setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
  expect_line_refused("convolution: winograd", 78,
                      {"convolution", "winograd needs a CPU with AVX2", "got baseline", "write convolution: auto"});
  ::unsetenv("ONEDNN_MAX_CPU_ISA");
}

TEST_F(RefusalsTest, WrongMagicNumbers) {
  testing::write_idx_dataset(folder_, 8, 8, 28);
  folder_.write("train-images-idx3-ubyte", testing::idx_labels(8));
  expect_data_refused(65, {"train-images-idx3-ubyte", "magic number", "expected 0x00000803", "got 0x00000801"});
}

TEST_F(RefusalsTest, TruncatedGzip) {
  testing::write_idx_dataset(folder_, 8, 8, 28);
  std::filesystem::remove(path("t10k-images-idx3-ubyte"));
  const std::string packed = testing::gzip(testing::idx_images(8, 28, 28));
  folder_.write("t10k-images-idx3-ubyte.gz", packed.substr(0, packed.size() / 2));
  expect_data_refused(65, {"t10k-images-idx3-ubyte.gz", "gzip"});
}

TEST_F(RefusalsTest, CountsThatDiffer) {
  testing::write_idx_dataset(folder_, 8, 8, 28);
  folder_.write("train-labels-idx1-ubyte", testing::idx_labels(7));
  expect_data_refused(65, {"train-labels-idx1-ubyte", "expected 8", "got 7", "same data set"});
}

TEST_F(RefusalsTest, LabelsOutOfRange) {
  testing::write_idx_dataset(folder_, 8, 8, 28);
  std::string labels = testing::idx_labels(8);
  labels.back() = 11;
  folder_.write("t10k-labels-idx1-ubyte", labels);
  expect_data_refused(65, {"t10k-labels-idx1-ubyte", "label 7", "expected 0 to 9", "got 11"});
  const testing::Finished twelve = run(training("twelve", {"dataset={name: mnist, dir: ., classes: 12}"}));
  EXPECT_EQ(twelve.exit, 0) << twelve.err;
}

/// Damages each file of CIFAR-10 in turn; the others are complete.
TEST_F(RefusalsTest, DamagedCifar10Files) {
  constexpr size_t kRecord = 3073;
  const std::string whole(4 * kRecord, '\1');
  std::string mislabelled = whole;
  mislabelled[2 * kRecord] = 10;
  struct Damage {
    std::string bytes;
    Arguments words;
  };
  const Damage damages[] = {
      {whole.substr(0, 2 * kRecord + 100), {"record 2", "expected 3073 bytes", "after 100", "get the file again"}},
      {mislabelled, {"record 2", "a label from 0 to 9", "got 10"}},
      {"", {"records of 3073 bytes", "got none"}}};
  const Arguments overrides = {"model=resnet18", "dataset={name: cifar10, dir: .}"};
  for (const std::string file : {"data_batch_1.bin", "data_batch_5.bin", "test_batch.bin"}) {
    for (const Damage& damage : damages) {
      for (int batch = 1; batch <= 5; ++batch) folder_.write(fmt::format("data_batch_{}.bin", batch), whole);
      folder_.write("test_batch.bin", whole);
      folder_.write(file, damage.bytes);
      Arguments words = damage.words;
      words.insert(words.begin(), file);
      expect_refused(training("run", overrides), 65, words);
    }
  }
  folder_.write("test_batch.bin", whole);
  std::filesystem::remove(path("data_batch_3.bin"));
  expect_refused(training("run", overrides), 66, {"data_batch_3.bin"});
}

TEST_F(RefusalsTest, DamagedTextsAndVocabularies) {
  const auto expect_text_file_refused = [&](int code, Arguments words) {
    words.insert(words.begin(), "psalms");
    expect_refused(training("run", {"model={name: bert, vocab: 62, hidden: 16, layers: 1, heads: 2, seq: 16}",
                                    "dataset={name: text, files: [psalms]}"}),
                   code, words);
  };
  expect_text_file_refused(66, {"no such file"});
  folder_.write("psalms", "The LORD is my shepherd\nI shall not w\xe4nt\n");
  expect_text_file_refused(65, {"psalms:2", "UTF-8", "0xe4"});
  folder_.write("psalms", "\n\n");
  expect_text_file_refused(65, {"expected lines of text"});
  const std::string packed = testing::gzip("He maketh me to lie down in green pastures\n");
  folder_.write("psalms", packed.substr(0, packed.size() - 5));
  expect_text_file_refused(65, {"gzip"});

  // The vocabulary is one that a run has made and stored beside its text.
  std::string psalm;
  for (int verse = 0; verse < 40; ++verse)
    psalm += fmt::format("verse {} The LORD is my shepherd; I shall not want\n", verse);
  folder_.write("psalms", psalm);
  const Arguments overrides = {"model={name: bert, vocab: 40, hidden: 16, layers: 1, heads: 2, seq: 16}",
                               "dataset={name: text, files: [psalms]}", "steps=1", "epochs=", "batch_size=4"};
  train("first", overrides);
  int damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("psalms.40") || !entry.is_regular_file()) continue;
    std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  expect_refused(training("run", overrides), 65, {"psalms.40", "vocabulary"});
}

TEST_F(RefusalsTest, CommandLines) {
  const auto refused = [&](const Arguments& arguments, const Arguments& words) {
    expect_refused(arguments, 64, words);
  };
  refused({"trian"}, {"'trian' is not a command", "did you mean 'train'?"});
  refused({"digits.yaml"}, {"'digits.yaml' is not a command; write --config digits.yaml"});
  refused({"lenet_1cpu"}, {"'lenet_1cpu' is not a command; write --config lenet_1cpu"});
  refused({"help"}, {"'help' is not a command; write dptrain --help"});
  refused({"--config", "digits.yaml", "compare"}, {"the command goes first: dptrain compare ..."});
  refused({"bench", "op"}, {"'op' is not a command of dptrain bench; did you mean 'ops'?"});
  refused({"train", "digits.yaml"}, {"'digits.yaml' is not an argument of dptrain train; write --config digits.yaml"});
  refused({"train"}, {"--config is required", "--help"});
  refused({"--config", "digits.yaml", "--config", "b.yaml"}, {"--config: expected once, got it 2 times"});
  refused({"compare", "--config", "digits.yaml", "--repeat", "x"},
          {"--repeat: expected a number from 1 to 1000, got 'x'"});
  refused({"--config"}, {"--config: expected FILE, got nothing; see dptrain train --help"});
  refused({"--config", "--set", "epochs=1"},
          {"--config: expected FILE, got the option --set; see dptrain train --help"});
  refused({"--config", "digits.yaml", "--out", "--quiet"}, {"--out: expected DIR, got the option --quiet"});
  refused({"predict", "--config", "digits.yaml", "--checkpoint", "x", "--input", "--top=3"},
          {"--input: expected ", ", got the option --top=3; see dptrain predict --help"});
  expect_refused({"hash", "--", "--quiet"}, 66, {"--quiet"});
  refused({"bench", "comm", "--devices", "--json"}, {"got the option --json; see dptrain bench comm --help"});
  refused({"--config", "digits.yaml", "--batch"},
          {"'--batch' is not an argument of dptrain train; write --set batch_size=VALUE"});
  refused({"--config", "digits.yaml", "--fancy"}, {"'--fancy' is not an argument of dptrain train", "train --help"});
  refused({"--confg", "digits.yaml"}, {"'--confg' is not an argument of dptrain train", "did you mean '--config'?"});
  refused({"schema", "digits.yaml"}, {"'digits.yaml' is not an argument of dptrain schema", "schema --help"});
  refused({"--config", "digits.yaml", "--progress", "wild"},
          {"--progress: expected one of auto,plain,none, got 'wild'"});
  refused({"--config", "digits.yaml", "--out", ""}, {"--out", "needs a value"});
  refused({"--config", "digits.yaml", "--out", "runs/{hsah}"},
          {"--out: expected no word in braces except {hash}, got {hsah}; write for instance runs/rates/{hash}"});
  refused({"--config", "digits.yaml", "--devices", ""}, {"--devices", "needs a value"});
  refused({"--config", ""}, {"--config", "needs a value"});
  refused({"hash", ""}, {"checkpoint", "needs a value"});
  refused({"table", ""}, {"directories", "needs a value"});
  refused({"eval", "--config", "digits.yaml", "--checkpoint", ""}, {"--checkpoint", "needs a value"});
  refused({"predict", "--config", "digits.yaml", "--checkpoint", "x", "--input", ""}, {"--input", "needs a value"});
  for (const char* flag : {"--links", "--operators", "--calibrate", "--comm"})
    refused({"plan", "--config", "digits.yaml", flag, ""}, {flag, "needs a value"});
  refused({"--config", "digits.yaml", "--resume", ""}, {"--resume", "expected a checkpoint"});
  refused({"--config", "digits.yaml", "--resume="}, {"--resume", "expected a checkpoint"});
  refused({"bench", "comm", "--foo"},
          {"'--foo' is not an argument of dptrain bench comm", "dptrain bench comm --help"});
  refused({"bench"}, {"expected one of its commands, got none; see dptrain bench --help"});
  refused({"table"}, {"table: expected RUN_DIR ..., got nothing; write for instance dptrain table runs"});
  refused({"report", "runs"}, {"-o is required", "dptrain report --help"});
  refused({"report", "-o", "a.html"},
          {"report: expected RUN_DIR ..., got nothing; write for instance dptrain report runs -o report.html"});
  refused({"hash"}, {"hash: expected CHECKPOINT, got nothing; write for instance dptrain hash runs/lenet_ddp_2cpu"});
  refused({"gate", "--config", "digits.yaml"},
          {"gate: expected FILE, got nothing; write for instance dptrain gate lenet.json --config lenet_ddp_2cpu"});
  refused(
      {"gate", "a.json", "--config", "digits.yaml", "--steps", "3"},
      {"'--steps' is not an argument of dptrain gate; it trains as many steps as dptrain bless --steps has blessed"});
  refused({"hash", "a", "b"}, {"'b' is not an argument of dptrain hash; dptrain hash --help shows its arguments"});
  refused({"--config", "digits.yaml", "--set", "strategy={name:", "ddp}", "--set", "epochs=1"},
          {"'ddp}' is not an argument of dptrain train; put the value of --set in quotes: --set 'strategy=...'"});
  refused({"--config", "digits.yaml", "--set", "split=", "[1,", "2]"}, {"in quotes: --set 'split=...'"});
}

TEST_F(RefusalsTest, OverridesThatAreNoAssignments) {
  expect_refused(training("run", {"epochs"}), 78, {"--set", "expected KEY=VALUE", "got 'epochs'"});
  expect_refused(training("run", {"epochs=x"}), 78, {"--set: epochs", "got 'x'", "--set epochs="});
  expect_refused(training("run", {"batch_size.foo=1"}), 78,
                 {"--set: batch_size: expected an integer", "foo: 1}", "--set batch_size="});
}

}  // namespace
}  // namespace dptrain
