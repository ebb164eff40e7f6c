#include "data/cifar10.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "data/byte_images.h"
#include "data/dataset_folders.h"
#include "data/kept_digest.h"
#include "data/plain_or_gzip_file.h"
#include "data/stored_images.h"

namespace dptrain {
namespace {

constexpr int64_t kClasses = 10;
constexpr size_t kImageBytes = 3 * 32 * 32;
constexpr size_t kRecordBytes = 1 + kImageBytes;

/// Ten times the training set of CIFAR-10, 307 MB. A limit is needed because a gzip file doesn't say in advance how
/// much it holds.
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

std::string place_of(const std::filesystem::path& path, int64_t record) {
  return fmt::format("{}: record {}", path.string(), record);
}

void check_whole(const std::filesystem::path& path, int64_t record, size_t bytes) {
  if (bytes < kRecordBytes)
    refuse(place_of(path, record), fmt::format("expected {} bytes", kRecordBytes),
           fmt::format("the end of the file after {}", bytes), kGetFileAgain);
}

void check_label(const std::filesystem::path& path, int64_t record, uint8_t label) {
  if (label >= kClasses)
    refuse(place_of(path, record), fmt::format("expected a label from 0 to {}", kClasses - 1), fmt::format("{}", label),
           "give the binary version of CIFAR-10");
}

void check_not_empty(const std::filesystem::path& path, int64_t records) {
  if (records == 0)
    refuse(path.string(), fmt::format("expected records of {} bytes", kRecordBytes), "none", kGetFileAgain);
}

using Paths = std::vector<std::filesystem::path>;

/// All files of a part have the same number of records, so a file that was cut at the end of a record is noticed here.
void check_equal_counts(const Paths& paths, const std::vector<int64_t>& records) {
  const auto most = std::ranges::max_element(records);
  for (size_t i = 0; i < paths.size(); ++i)
    if (records[i] != *most)
      refuse(paths[i].string(),
             fmt::format("expected {} records, as {} has", *most,
                         paths[static_cast<size_t>(most - records.begin())].filename().string()),
             fmt::format("{}", records[i]), kGetFileAgain);
}

/// The digest of a content, from the digests of its files, which cover the records that are samples.
std::string digest_of_files(const std::vector<std::string>& digests) {
  std::string all;
  for (const std::string& digest : digests) all += digest;
  return sha256_of(all);
}

/// Appends the records of a file to `data` until `data` has `most` of them. Records beyond that are checked all the
/// same. Returns how many records the file has.
int64_t append_records(const std::filesystem::path& path, int64_t most, LabelledBytes& data) {
  PlainOrGzipFile file(path);
  std::array<uint8_t, kRecordBytes> record;
  int64_t count = 0;
  while (const size_t got = file.read(record)) {
    check_whole(path, count, got);
    check_label(path, count, record[0]);
    if (++count > kMostGzipRecords && file.is_gzip())
      refuse(path.string(), fmt::format("expected at most {} records in a gzip file", kMostGzipRecords), "more",
             "decompress the file");
    if (static_cast<int64_t>(data.labels.size()) == most) continue;
    data.labels.push_back(record[0]);
    data.pixels.insert(data.pixels.end(), record.begin() + 1, record.end());
  }
  check_not_empty(path, count);
  return count;
}

std::shared_ptr<const ImageDataset> unpacked(const Paths& paths, int64_t limit, const Normalization& normalization) {
  LabelledBytes data{.image_shape = {3, 32, 32}, .classes = kClasses};
  std::vector<int64_t> samples_of_files, records;
  for (const auto& path : paths) {
    const auto before = static_cast<int64_t>(data.labels.size());
    records.push_back(append_records(path, limit, data));
    samples_of_files.push_back(static_cast<int64_t>(data.labels.size()) - before);
  }
  check_equal_counts(paths, records);
  data.pixels.shrink_to_fit();
  const auto digest = [samples_of_files](const LabelledBytes& bytes) {
    std::vector<std::string> digests;
    size_t sample = 0;
    for (const int64_t count : samples_of_files) {
      Sha256 file;
      for (int64_t i = 0; i < count; ++i, ++sample) {
        const auto label = static_cast<std::byte>(bytes.labels[sample]);
        file.update(std::span(&label, 1));
        file.update(std::as_bytes(std::span(bytes.pixels).subspan(sample * kImageBytes, kImageBytes)));
      }
      digests.push_back(file.hex_digest());
    }
    return digest_of_files(digests);
  };
  return std::make_shared<ByteImages>(std::move(data), normalization, digest);
}

/// The digest of the first `samples` records. A digest is kept only of a file whose labels have all been checked: when
/// the file is first used, it is read once for both.
std::string checked_digest(const StoredFile& file, const std::filesystem::path& path, int64_t samples) {
  const KeptDigest kept{.file = file.identity(), .what = fmt::format("the first {} records of CIFAR-10", samples)};
  return kept.get([&] {
    Sha256 digest;
    int64_t record = 0;
    file.read_through(0, file.identity().bytes, kRecordBytes, [&](std::span<const uint8_t> records) {
      for (; !records.empty(); records = records.subspan(kRecordBytes), ++record) {
        check_label(path, record, records[0]);
        if (record < samples) digest.update(std::as_bytes(records.first(kRecordBytes)));
      }
    });
    return digest.hex_digest();
  });
}

std::shared_ptr<const ImageDataset> stored(const Paths& paths, int64_t limit, const Normalization& normalization) {
  StoredContent content{.image_shape = {3, 32, 32}, .classes = kClasses};
  std::vector<std::string> digests;
  std::vector<int64_t> counts;
  int64_t samples = 0;
  for (const auto& path : paths) {
    const auto file = std::make_shared<const StoredFile>(path);
    const int64_t records = file->identity().bytes / static_cast<int64_t>(kRecordBytes);
    const auto rest = static_cast<size_t>(file->identity().bytes) % kRecordBytes;
    if (rest > 0) check_whole(path, records, rest);
    check_not_empty(path, records);
    counts.push_back(records);
    const int64_t taken = std::min(records, limit - samples);
    digests.push_back(checked_digest(*file, path, taken));
    content.runs.push_back({.file = file, .images = taken, .begin = 1, .stride = kRecordBytes});
    samples += taken;
  }
  check_equal_counts(paths, counts);
  content.digest = [digest = digest_of_files(digests)] { return digest; };
  return std::make_shared<StoredImages>(std::move(content), normalization);
}

std::shared_ptr<const ImageDataset> read_part(const std::filesystem::path& folder, std::span<const char* const> names,
                                              std::optional<int64_t> limit, const Normalization& normalization) {
  Paths paths;
  bool is_plain = true;
  for (const char* name : names) {
    paths.push_back(require_plain_or_gzip(folder, name, kWhereToGet));
    is_plain = is_plain && !PlainOrGzipFile(paths.back()).is_gzip();
  }
  const int64_t most = limit.value_or(std::numeric_limits<int64_t>::max());
  return is_plain ? stored(paths, most, normalization) : unpacked(paths, most, normalization);
}

}  // namespace

bool has_cifar10_files(const std::filesystem::path& folder) {
  for (const auto names : {std::span<const char* const>(kTrainFiles), std::span<const char* const>(kTestFiles)})
    for (const char* name : names)
      if (find_plain_or_gzip(folder, name)) return true;
  return false;
}

ImageDatasets read_cifar10_files(const std::filesystem::path& folder, const DatasetOptions& options) {
  // The test part comes first: it is small, and reading it is enough to notice a wrong folder.
  const auto test = read_part(folder, kTestFiles, options.test_limit, options.normalization);
  return {.train = read_part(folder, kTrainFiles, options.limit, options.normalization), .test = test};
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
