#include "data/cifar10.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/byte_images.h"
#include "data/dataset_folders.h"
#include "data/plain_or_gzip_file.h"

namespace dptrain {
namespace {

constexpr int64_t kClasses = 10;
constexpr size_t kImageBytes = 3 * 32 * 32;
constexpr size_t kRecordBytes = 1 + kImageBytes;

/// Ten times CIFAR-10's own, 307 MB: a gzip file has no header that would say how much is in it.
constexpr int64_t kMostGzipRecords = 100000;

constexpr std::array kTrainFiles = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                    "data_batch_5.bin"};
constexpr std::array kTestFiles = {"test_batch.bin"};

constexpr const char* kWhereToGet =
    "get cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html, unpack it, and give the folder of "
    "its six .bin files: dataset: {name: cifar10, dir: ...}";

[[noreturn]] void refuse(const std::string& where, std::string expected, std::string got, std::string advice) {
  throw Error(
      ExitCode::bad_data,
      Mistake{.where = where, .expected = std::move(expected), .got = std::move(got), .advice = std::move(advice)});
}

/// Appends the records of a file to `data` until that has `most` of them; the others are checked all the same.
void append_records(const std::filesystem::path& path, int64_t most, LabelledBytes& data) {
  PlainOrGzipFile file(path);
  std::array<uint8_t, kRecordBytes> record;
  int64_t count = 0;
  while (const size_t got = file.read(record)) {
    const auto where = [&] { return fmt::format("{}: record {}", path.string(), count); };
    if (got < kRecordBytes)
      refuse(where(), fmt::format("expected {} bytes", kRecordBytes), fmt::format("the end of the file after {}", got),
             kGetFileAgain);
    if (record[0] >= kClasses)
      refuse(where(), fmt::format("expected a label from 0 to {}", kClasses - 1), fmt::format("{}", record[0]),
             "give the binary version of CIFAR-10");
    if (++count > kMostGzipRecords && file.is_gzip())
      refuse(path.string(), fmt::format("expected at most {} records in a gzip file", kMostGzipRecords), "more",
             "decompress the file");
    if (static_cast<int64_t>(data.labels.size()) == most) continue;
    data.labels.push_back(record[0]);
    data.pixels.insert(data.pixels.end(), record.begin() + 1, record.end());
  }
  if (count == 0)
    refuse(path.string(), fmt::format("expected records of {} bytes", kRecordBytes), "none", kGetFileAgain);
}

LabelledBytes read_files(const std::filesystem::path& folder, std::span<const char* const> names,
                         std::optional<int64_t> limit) {
  LabelledBytes data{.image_shape = {3, 32, 32}, .classes = kClasses};
  for (const char* name : names)
    append_records(require_plain_or_gzip(folder, name, kWhereToGet),
                   limit.value_or(std::numeric_limits<int64_t>::max()), data);
  data.pixels.shrink_to_fit();
  return data;
}

}  // namespace

bool has_cifar10_files(const std::filesystem::path& folder) {
  for (const auto names : {std::span<const char* const>(kTrainFiles), std::span<const char* const>(kTestFiles)})
    for (const char* name : names)
      if (find_plain_or_gzip(folder, name)) return true;
  return false;
}

ImageDatasets read_cifar10_files(const std::filesystem::path& folder, const DatasetOptions& options) {
  // The test part first: it is small, and a folder that is something else shows without the rest.
  LabelledBytes test = read_files(folder, kTestFiles, options.test_limit);
  LabelledBytes train = read_files(folder, kTrainFiles, options.limit);
  return {.train = std::make_shared<ByteImages>(std::move(train), options.normalization),
          .test = std::make_shared<ByteImages>(std::move(test), options.normalization)};
}

DatasetSpec read_cifar10(ConfigReader& config, const DatasetRequest&) {
  const std::optional<std::filesystem::path> dir =
      config.optional_path("dir", "the folder of its six .bin files; by default found by itself");
  const DatasetOptions options = read_dataset_options(config, 3);
  DatasetSpec spec;
  spec.order = options.order;
  spec.open = [dir, options] {
    if (dir) return read_cifar10_files(*dir, options);
    std::vector<std::filesystem::path> folders = in_dataset_roots("cifar-10-batches-bin");
    for (auto& folder : in_dataset_roots("cifar10")) folders.push_back(std::move(folder));
    return read_cifar10_files(find_dataset_folder("cifar10", folders, has_cifar10_files, kWhereToGet), options);
  };
  return spec;
}

}  // namespace dptrain
