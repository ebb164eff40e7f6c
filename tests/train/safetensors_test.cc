// The checkpoint format: reading returns what was written, equal bits have equal hashes, and a damaged file neither
// passes for weights nor costs more memory than its size.
#include "train/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/idx_files.h"
#include "support/process.h"

namespace dptrain::train {
namespace {

using nlohmann::json;
using testing::ScratchFolder;
using testing::text_of;

std::vector<nn::NamedValues> sample_tensors() {
  return {{"fc1.weight", {2, 3}, {1, 2, 3, 4, 5, 6}},
          {"bn1.running_mean", {2}, {-0.5f, std::numeric_limits<float>::denorm_min()}},
          {"conv1.weight", {1, 1, 2, 2}, {-0.f, 1e-38f, 1e38f, 0.1f}}};
}

/// A file with this header and this number of data bytes.
std::string file_with(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + std::string(data_bytes, '\0');
}

json entry(const json& shape, const json& offsets) {
  return {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", offsets}};
}

/// The error that reading the file throws.
Error refusal_of(const std::filesystem::path& path) {
  try {
    read_safetensors(path);
  } catch (const Error& error) {
    return error;
  }
  return Error(ExitCode::ok, path.string() + ": was read");
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) const { return folder_.write("model.safetensors", bytes); }

  /// Expects an error with code 65, the file's name and `words`.
  void expect_refused(const std::string& bytes, const std::vector<std::string>& words) const {
    const auto path = write(bytes);
    const Error error = refusal_of(path);
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ExitCode::bad_data) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_LT(text.size(), 500u);
    EXPECT_TRUE(text.starts_with(path.string() + ": ")) << text;
    for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
  }
  void expect_header_refused(const json& header, size_t data_bytes, const std::vector<std::string>& words) const {
    expect_refused(file_with(header.dump(), data_bytes), words);
  }

  ScratchFolder folder_;
};

TEST_F(SafetensorsTest, WhatIsWrittenComesBackByName) {
  const auto path = folder_.path() / "a.safetensors";
  write_safetensors(path, sample_tensors());
  const auto back = read_safetensors(path);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(back[0].name, "bn1.running_mean");
  EXPECT_EQ(back[1].name, "conv1.weight");
  EXPECT_EQ(back[2].name, "fc1.weight");
  EXPECT_EQ(back[1].shape, Shape({1, 1, 2, 2}));
  for (const auto& tensor : sample_tensors())
    for (const auto& found : back)
      if (found.name == tensor.name) {
        ASSERT_EQ(found.values.size(), tensor.values.size());
        EXPECT_EQ(std::memcmp(found.values.data(), tensor.values.data(), 4 * tensor.values.size()), 0) << tensor.name;
      }
}

TEST_F(SafetensorsTest, TheHashIsOfBitsNamesAndShapesAndNotOfOrder) {
  const std::string hash = weights_hash(sample_tensors());
  EXPECT_EQ(hash.size(), 64u);
  auto tensors = sample_tensors();
  std::ranges::reverse(tensors);
  EXPECT_EQ(weights_hash(tensors), hash);
  const auto changed = [](const auto& change) {
    auto copy = sample_tensors();
    change(copy[2]);
    return weights_hash(copy);
  };
  EXPECT_NE(changed([](auto& tensor) { tensor.values[0] = 0.f; }), hash) << "-0 and 0 are different bits";
  EXPECT_NE(changed([](auto& tensor) { tensor.name = "conv2.weight"; }), hash);
  EXPECT_NE(changed([](auto& tensor) { tensor.shape = {1, 1, 4}; }), hash);
}

TEST_F(SafetensorsTest, NoTensorsAreTensorsToo) {
  write_safetensors(folder_.path() / "none", {});
  EXPECT_TRUE(read_safetensors(folder_.path() / "none").empty());
}

TEST_F(SafetensorsTest, AMissingFileIs66) {
  EXPECT_EQ(refusal_of(folder_.path() / "nothing").code(), ExitCode::missing_file);
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  write_safetensors(folder_.path() / "whole", sample_tensors());
  const std::string whole = text_of(folder_.path() / "whole");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) expect_refused(whole.substr(0, bytes), {});
  expect_refused(whole + '\0', {"the data", "expected 48 bytes", "got 49"});
}

TEST_F(SafetensorsTest, NoFlippedBitOfTheHeaderPassesUnseen) {
  write_safetensors(folder_.path() / "whole", sample_tensors());
  const std::string whole = text_of(folder_.path() / "whole");
  const std::string hash = weights_hash(sample_tensors());
  const size_t header_end = whole.size() - 48;
  const size_t metadata = whole.find("__metadata__"), metadata_end = whole.find("},");
  const size_t blanks = whole.rfind('}', header_end) + 1;
  for (size_t at = 0; at < header_end; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      const auto path = write(damaged);
      try {
        // A flipped bit may give another valid name. Metadata and the blanks at the end aren't part of any weight.
        const bool same = weights_hash(read_safetensors(path)) == hash;
        const bool harmless = (metadata <= at && at < metadata_end) || at >= blanks;
        EXPECT_TRUE(!same || harmless) << "byte " << at << " bit " << bit;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::bad_data) << error.what();
        EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
      }
    }
}

TEST_F(SafetensorsTest, DataMustLieGaplesslyAndApart) {
  expect_header_refused({{"a", entry({2}, {0, 8})}, {"b", entry({2}, {4, 12})}}, 12, {"b: ", "byte 8", "got 4"});
  expect_header_refused({{"a", entry({2}, {0, 8})}, {"b", entry({2}, {0, 8})}}, 8, {"b: ", "byte 8", "got 0"});
  expect_header_refused({{"a", entry({1}, {0, 4})}, {"b", entry({1}, {8, 12})}}, 12, {"b: ", "byte 4", "got 8"});
  expect_header_refused({{"a", entry({1}, {4, 8})}}, 8, {"a: ", "byte 0", "got 4"});
  expect_header_refused({{"a", entry({1}, {0, 4})}}, 8, {"the data", "expected 4 bytes", "got 8"});
}

TEST_F(SafetensorsTest, OffsetsMustFitTheShapeAndTheFile) {
  for (const json& offsets : {json{0, 4}, json{0, 12}, json{8, 0}, json{0, 1ull << 63}})
    expect_header_refused({{"a", entry({2}, offsets)}}, 8, {"a: ", "data_offsets of 8 bytes within 8", offsets.dump()});
  for (const json& offsets : {json{-8, 0}, json{0.0, 8.0}, json{"0", "8"}})
    expect_header_refused({{"a", entry({2}, offsets)}}, 8, {"a: ", "whole numbers"});
  for (const json& offsets : {json{0}, json{0, 4, 8}, json(8), json()})
    expect_header_refused({{"a", entry({2}, offsets)}}, 8, {"a: ", "two data_offsets"});
}

TEST_F(SafetensorsTest, ShapesThatOverflowAreRefused) {
  const uint64_t half = 1ull << 32, most = std::numeric_limits<uint64_t>::max();
  for (const json& shape :
       {json{half, half}, json{half, half, 2}, json{most}, json{most, 2}, json{1ull << 63, 2}, json{3}})
    expect_header_refused({{"a", entry(shape, {0, 8})}}, 8, {"a: ", "at most 2 values", shape.dump()});
  expect_header_refused({{"a", entry({-1, -2}, {0, 8})}}, 8, {"a: ", "whole numbers"});
  expect_header_refused({{"a", entry({1.5}, {0, 8})}}, 8, {"a: ", "whole numbers"});
  expect_header_refused({{"a", entry({1, 1, 1, 1, 1, 1, 1, 1, 1, 2}, {0, 8})}}, 8, {"a: ", "dimensions", "got 10"});
}

TEST_F(SafetensorsTest, OtherKindsOfEntriesAreRefused) {
  json half = entry({4}, {0, 8});
  half["dtype"] = "F16";
  expect_header_refused({{"a", half}}, 8, {"a: ", "dtype F32", "F16", "save the model in float32"});
  expect_header_refused({{"a", json::array()}}, 0, {"a: ", "expected dtype, shape"});
  expect_header_refused({{"a", {{"dtype", "F32"}}}}, 0, {"a: ", "expected dtype, shape"});
  for (const char* header : {"", "[]", "7", "null", "{", "{]", "{\"a\"}", "\xff\xfe"})
    expect_refused(file_with(header, 0), {"the header", "JSON object"});
}

TEST_F(SafetensorsTest, BatchCountsOfPyTorchArePassedOver) {
  json count = entry(json::array(), {0, 8});
  count["dtype"] = "I64";
  const json weight = entry({1}, {8, 12});
  const auto path = write(file_with(json{{"bn1.num_batches_tracked", count}, {"bn1.weight", weight}}.dump(), 12));
  const auto tensors = read_safetensors(path);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "bn1.weight");
  // A program that converts all tensors to f32, or to half that width, converts these, too.
  for (const auto& [dtype, bytes] : {std::pair{"F32", 4}, {"BF16", 2}, {"F64", 8}}) {
    json other = entry(json::array(), {0, bytes});
    other["dtype"] = dtype;
    const json behind = entry({1}, {bytes, bytes + 4});
    const std::string header = json{{"bn1.num_batches_tracked", other}, {"bn1.weight", behind}}.dump();
    EXPECT_EQ(read_safetensors(write(file_with(header, static_cast<size_t>(bytes) + 4))).size(), 1u) << dtype;
  }
  // Only these tensors may be integers, and they take space in the file like any tensor.
  expect_header_refused({{"bn1.weight", count}}, 8, {"bn1.weight: ", "dtype F32", "I64"});
  expect_header_refused({{"bn1.num_batches_tracked", count}}, 12, {"the data", "expected 8 bytes", "got 12"});
  count["data_offsets"] = {0, 4};
  expect_header_refused({{"bn1.num_batches_tracked", count}}, 4, {"num_batches_tracked: ", "8 bytes within 4"});
}

TEST_F(SafetensorsTest, ANameThatStandsTwiceIsNamed) {
  const std::string one = entry({1}, {0, 4}).dump(), other = entry({1}, {4, 8}).dump();
  expect_refused(file_with("{\"a\":" + one + ",\"a\":" + other + "}", 8), {"a: ", "each name once"});
  // The second name is the same, with an escaped letter.
  expect_refused(file_with("{\"a\":" + one + ",\"\\u0061\":" + other + "}", 8), {"a: ", "each name once"});
}

TEST_F(SafetensorsTest, AHostileNameKeepsToOneLineOfMessage) {
  const std::string name = "weight\n\x1b[2J" + std::string(100'000, 'x');
  expect_header_refused({{name, entry({3}, {0, 8})}}, 8, {"weight??[2Jxxx", "..."});
}

TEST_F(SafetensorsTest, AFalseHeaderLengthTakesNoMemory) {
  for (const uint64_t length : {uint64_t{8}, uint64_t{100'000'001}, uint64_t{1} << 62, ~uint64_t{0}}) {
    std::string bytes(8 + 7, '{');
    std::memcpy(bytes.data(), &length, sizeof length);
    expect_refused(bytes, {"the header", "expected a length of at most 7", std::to_string(length)});
  }
  // The file is sparse: it has a size, but only its first bytes may be read.
  const auto path = write(std::string(8, '\xff'));
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  EXPECT_EQ(refusal_of(path).code(), ExitCode::bad_data);
}

TEST_F(SafetensorsTest, BracketBombsAreRefusedBeforeTheyUnfold) {
  const auto repeated = [](const std::string& text, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += text;
    return all;
  };
  expect_refused(file_with(repeated("[", 1'000'000), 0), {"the header"});
  expect_refused(file_with(repeated("{\"a\":", 1'000'000), 0), {"the header"});
  expect_refused(file_with("{\"a\":{\"shape\":" + repeated("[", 1000) + repeated("]", 1000) + "}}", 0),
                 {"the header", "3 levels"});
}

TEST_F(SafetensorsTest, ManyTensorsOverTheSameBytesAreRefusedBeforeAnyIsTaken) {
  // 20,000 tensors of 4 MB would be 80 GB.
  json header;
  for (int i = 0; i < 20'000; ++i) header["t" + std::to_string(i)] = entry({1 << 20}, {0, 4 << 20});
  expect_header_refused(header, 4 << 20, {"expected it to begin at byte 4194304"});
}

}  // namespace
}  // namespace dptrain::train
