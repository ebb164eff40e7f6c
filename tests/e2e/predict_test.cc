// Predicting classes of images with the weights of a run, through the program.
#include <fmt/format.h>

#include "data/idx_file.h"
#include "e2e/command_fixture.h"
#include "support/jpeg_files.h"
#include "support/png_files.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;
using testing::png_file;

class PredictTest : public testing::CommandTest {
 protected:
  PredictTest() { train("trained", {"dataset={name: mnist, limit: 2560, test_limit: 200}"}); }

  static Arguments predicting(const std::string& input, const Arguments& more = {}) {
    Arguments arguments = {"predict", "--config", "digits.yaml", "--checkpoint", "trained", "--input", input};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  /// The lines of a prediction, which must exit with code 0 and print nothing else.
  std::vector<nlohmann::json> predict(const std::string& input, const Arguments& more = {}) const {
    const Finished finished = run(predicting(input, more));
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    std::vector<nlohmann::json> lines;
    for (const auto& line : testing::lines_of(finished.out)) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  void expect_refused_input(const std::string& input, int code, const Arguments& words,
                            const Arguments& more = {}) const {
    expect_refused(predicting(input, more), code, words);
  }

  const std::string digits_ = testing::source_file("datasets/mnist-10k/t10k-images-idx3-ubyte.gz");
};

TEST_F(PredictTest, TheShareOfRightClassesIsTheEvaluationsAccuracy) {
  const auto lines = predict(digits_);
  const auto labels = read_idx_labels(testing::source_file("datasets/mnist-10k/t10k-labels-idx1-ubyte.gz"));
  ASSERT_EQ(lines.size(), labels.size());
  int64_t right = 0;
  for (size_t n = 0; n < lines.size(); ++n) {
    EXPECT_EQ(lines[n]["input"], digits_);
    EXPECT_EQ(lines[n]["index"], n);
    right += lines[n]["class"] == labels[n];
    const double probability = lines[n]["probability"];
    EXPECT_TRUE(probability > 0.1 && probability <= 1) << probability;  // the largest of ten probabilities
  }
  const Finished eval =
      run({"eval", "--config", "digits.yaml", "--checkpoint", "trained", "--json", "--set", "dataset={name: mnist}"});
  ASSERT_EQ(eval.exit, 0) << eval.err;
  const auto evaluated = nlohmann::json::parse(eval.out);
  EXPECT_EQ(evaluated["samples"], lines.size());
  EXPECT_EQ(evaluated["accuracy"], static_cast<double>(right) / static_cast<double>(lines.size()));
  EXPECT_GT(evaluated["accuracy"], 0.5) << "the weights say something";
}

TEST_F(PredictTest, AnEvaluationTellsOfEachClass) {
  const Arguments evaluating = {"eval", "--config", "digits.yaml", "--checkpoint", "trained", "--by-class"};
  Arguments as_json = evaluating;
  as_json.emplace_back("--json");
  const Finished eval = run(as_json);
  ASSERT_EQ(eval.exit, 0) << eval.err;
  const auto evaluated = nlohmann::json::parse(eval.out);
  std::vector<std::vector<int64_t>> expected(10, std::vector<int64_t>(10, 0));
  const auto labels = read_idx_labels(testing::source_file("datasets/mnist-10k/t10k-labels-idx1-ubyte.gz"));
  const auto lines = predict(digits_);
  // The images are the test split of digits.yaml.
  for (size_t n = 0; n < 200; ++n) ++expected[static_cast<size_t>(labels[n])][lines[n]["class"].get<size_t>()];
  ASSERT_EQ(evaluated["classes"].size(), 10u);
  int64_t right = 0;
  for (size_t label = 0; label < 10; ++label) {
    const auto& row = evaluated["classes"][label];
    EXPECT_EQ(row["class"], label);
    EXPECT_EQ(row["predicted"], expected[label]) << label;
    right += expected[label][label];
  }
  EXPECT_EQ(evaluated["samples"], 200);
  EXPECT_EQ(evaluated["accuracy"], static_cast<double>(right) / 200);
  EXPECT_EQ(evaluated["weights_hash"], hash("trained"));

  const Finished shown = run(evaluating);
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_NE(shown.out.find("class  samples  recall %  precision %  mostly mistaken for\n0 "), std::string::npos)
      << shown.out;
  expect_failed(run({"eval", "--config", testing::source_file("configs/bert_small_1cpu.yaml"), "--checkpoint",
                     "trained", "--by-class"}),
                78, {"expected a model and a data set of images, got bert on text", "without --by-class"});
}

TEST_F(PredictTest, PngFilesGiveTheLinesOfTheSameImagesInAnIdxFile) {
  const auto lines = predict(digits_);
  const IdxImages images = read_idx_images(digits_);
  std::filesystem::create_directory(path("folder"));
  for (const int n : {3, 70}) {
    const auto begin = images.pixels.begin() + n * 784;
    folder_.write("folder/" + std::to_string(n) + ".png", png_file(28, 28, {begin, begin + 784}));
  }
  const auto expect_same = [](const nlohmann::json& line, const std::string& input, int index, nlohmann::json idx) {
    idx["input"] = input;
    idx["index"] = index;
    EXPECT_EQ(line, idx);
  };
  const auto one = predict("folder/70.png");
  ASSERT_EQ(one.size(), 1u);
  expect_same(one[0], "folder/70.png", 0, lines[70]);
  const auto both = predict("folder", {"--devices", "cpu:1"});
  ASSERT_EQ(both.size(), 2u);
  expect_same(both[0], "folder/3.png", 0, lines[3]);
  expect_same(both[1], "folder/70.png", 1, lines[70]);
}

TEST_F(PredictTest, ClassesOfAnImageFolderHaveTheirNames) {
  const IdxImages images = read_idx_images(digits_);
  for (const char* of_class : {"train/even", "train/odd", "test/odd"}) {
    std::filesystem::create_directories(path("parity") / of_class);
    folder_.write(std::string("parity/") + of_class + "/1.png",
                  png_file(28, 28, {images.pixels.begin(), images.pixels.begin() + 784}));
  }
  const std::string dataset = "dataset={name: image_folder, dir: parity, channels: 1}";
  train("parity_run", {dataset, "batch_size=2", "epochs=1", "devices=[cpu:0]", "strategy=single"});
  const Finished finished = run({"predict", "--config", "digits.yaml", "--set", dataset, "--checkpoint", "parity_run",
                                 "--input", "parity/test/odd"});
  ASSERT_EQ(finished.exit, 0) << finished.err;
  const auto line = nlohmann::json::parse(finished.out);
  EXPECT_EQ(line["name"], line["class"] == 0 ? "even" : "odd");

  // The class numbers now have other names, so predicted names would be wrong.
  for (const char* part : {"train", "test"})
    std::filesystem::rename(path("parity") / part / "odd", path("parity") / part / "1st");
  const Arguments words = {"trained with dataset.class_names '1st' for class 0 of 2, got 'even' for class 0 of 2",
                           "the names that they had"};
  expect_refused({"predict", "--config", "digits.yaml", "--set", dataset, "--checkpoint", "parity_run", "--input",
                  "parity/test/1st"},
                 65, words);
  expect_refused({"eval", "--config", "digits.yaml", "--set", dataset, "--checkpoint", "parity_run"}, 65, words);
  Arguments resumed =
      training("parity_run", {dataset, "batch_size=2", "epochs=2", "devices=[cpu:0]", "strategy=single"});
  resumed.emplace_back("--resume");
  expect_refused(resumed, 65, {"dataset.class_names '1st' for class 0 of 2, got 'even'"});
}

TEST_F(PredictTest, AnotherNormalizationThanInTrainingIsRefused) {
  const Arguments words = {"trained with dataset.normalize {mean: [0.5], std: [1]}, got none",
                           "set the value that they were"};
  const std::string other = "dataset.normalize={mean: 0.5}";
  expect_refused(predicting(digits_, {"--set", other}), 65, words);
  expect_refused({"eval", "--config", "digits.yaml", "--checkpoint", "trained", "--set", other}, 65, words);
}

/// The photographs are scaled as the training photographs were.
TEST_F(PredictTest, PhotographsOfAnySizeAreScaledToThatOfTheDataSet) {
  const auto photograph = [](int height, int width, uint8_t value) {
    return testing::jpeg_file(height, width, std::vector<uint8_t>(static_cast<size_t>(3 * height * width), value));
  };
  for (const auto& [folder, value] : {std::pair("dark", 20), {"light", 230}}) {
    for (const char* part : {"train", "test"}) {
      std::filesystem::create_directories(path("photographs") / part / folder);
      for (int i = 0; i < 8; ++i)
        folder_.write(fmt::format("photographs/{}/{}/{}.jpg", part, folder, i),
                      photograph(30 + 5 * i, 64, static_cast<uint8_t>(value + i)));
    }
  }
  const std::string dataset = "dataset={name: image_folder, dir: photographs, size: 16}";
  train("scaled", {dataset, "batch_size=4", "epochs=8", "devices=[cpu:0]", "strategy=single"});
  folder_.write("one.jpg", photograph(200, 100, 235));
  for (const auto& [size, exit] : {std::pair("16", 0), {"20", 65}}) {
    const Finished finished =
        run({"predict", "--config", "digits.yaml", "--set", dataset, "--set", std::string("dataset.size=") + size,
             "--checkpoint", "scaled", "--input", "one.jpg"});
    ASSERT_EQ(finished.exit, exit) << finished.err;
    if (exit == 0) {
      EXPECT_EQ(nlohmann::json::parse(finished.out)["name"], "light") << finished.out;
    }
  }
}

TEST_F(PredictTest, TheLikeliestClassesComeWithTheFirst) {
  const auto lines = predict(digits_), tops = predict(digits_, {"--top", "3"});
  ASSERT_EQ(tops.size(), lines.size());
  for (size_t n = 0; n < tops.size(); n += 100) {
    const nlohmann::json& top = tops[n]["top"];
    ASSERT_EQ(top.size(), 3u);
    EXPECT_EQ(top[0]["class"], lines[n]["class"]);
    EXPECT_EQ(top[0]["probability"], lines[n]["probability"]);
    EXPECT_GE(top[1]["probability"], top[2]["probability"]);
  }
  expect_refused(predicting(digits_, {"--top", "0"}), 64, {"--top"});
}

TEST_F(PredictTest, NamesThatAreNotUtf8StillMakeJson) {
  folder_.write("\xff.png", png_file(28, 28, std::vector<uint8_t>(784)));
  EXPECT_EQ(predict("\xff.png").at(0)["input"], "\xef\xbf\xbd.png");
}

TEST_F(PredictTest, WhatCannotBePredictedIsRefused) {
  expect_refused_input("absent.png", 66, {"absent.png", "no such file"});
  std::filesystem::create_directory(path("empty"));
  expect_refused_input("empty", 66, {"empty", "PNG or JPEG files", "none"});
  const std::string image = png_file(28, 28, std::vector<uint8_t>(784));
  folder_.write("cut.png", image.substr(0, image.size() - 20));
  expect_refused_input("cut.png", 65, {"cut.png: byte ", "the end of the file"});
  folder_.write("small.png", png_file(2, 3, std::vector<uint8_t>(6)));
  expect_refused_input("small.png", 65, {"small.png", "[1, 28, 28]", "[1, 2, 3]", "scale it"});
  folder_.write("color.png", png_file(28, 28, std::vector<uint8_t>(3 * 784), {.color = PNG_COLOR_TYPE_RGB}));
  expect_refused_input("color.png", 65, {"color.png", "[1, 28, 28]", "[3, 28, 28]", "convert it to gray"});
  folder_.write("cut.idx", testing::idx_images(2, 28, 28).substr(0, 1000));
  expect_refused_input("cut.idx", 65, {"cut.idx: pixels", "expected 1568 bytes", "got 984"});
  folder_.write("a.png", image);
  expect_refused_input("a.png", 78, {"digits", "images", "bert on synthetic"},
                       {"--set", "model=bert", "--set", "dataset=synthetic"});
  expect_refused_input("a.png", 65, {"trained"}, {"--set", "model=resnet18"});
  expect_refused({"predict", "--config", "digits.yaml", "--checkpoint", "trained"}, 64, {"--input", "required"});
}

}  // namespace
}  // namespace dptrain
