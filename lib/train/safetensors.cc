#include "train/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/finite.h"
#include "base/sha256.h"

namespace dptrain::train {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr int kDeepestHeader = 3;                 // {"a name": {"shape": [20]}}

void sort_by_name(std::vector<nn::NamedValues>& tensors) { std::ranges::sort(tensors, {}, &nn::NamedValues::name); }

/// A name or value of the file in the form for a message: on one line and not too long.
std::string shown(const json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', true);
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text.size() > 80 ? text.substr(0, 80) + "..." : text;
}

/// Collects the names of a JSON header, because a JSON object would lose a name that appears twice. Stops at brackets
/// deeper than a header's, before they cost memory.
class HeaderScan final : public nlohmann::json_sax<json> {
 public:
  std::vector<std::string> names;

  bool key(string_t& name) override {
    if (depth_ == 1) names.push_back(name);
    return true;
  }
  bool start_object(size_t) override { return ++depth_ <= kDeepestHeader; }
  bool start_array(size_t) override { return ++depth_ <= kDeepestHeader; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  int depth_ = 0;
};

/// The place of a tensor in the file.
struct Entry {
  std::string name;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  ///< byte offsets in the data
  bool batch_count = false;     ///< a batch count of PyTorch's batch norms, which isn't used here
};

/// Whether a tensor is a batch count. It is an integer, unless a program has converted all tensors to another type.
bool is_batch_count(const std::string& name, const json& shape) {
  return shape.size() <= 1 && name.ends_with("num_batches_tracked");
}

/// Bytes per element of the types that tensors here may have.
uint64_t bytes_of(const json& dtype) {
  if (dtype == "I64" || dtype == "F64") return 8;
  return dtype == "F16" || dtype == "BF16" ? 2 : 4;
}

/// Reads the header, and checks all of it against the file's size before reading data.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path.string()), file_(path, std::ios::binary) {
    std::error_code error;
    file_bytes_ = std::filesystem::file_size(path, error);
    if (error || !file_)
      throw Error(std::filesystem::exists(path, error) ? ExitCode::io : ExitCode::missing_file,
                  path_ + ": could not be read");
  }

  std::vector<nn::NamedValues> tensors() {
    const json header = parsed_header();
    std::vector<Entry> entries;
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__") entries.push_back(entry_of(name, entry));
    check_data_is_covered(entries);
    std::vector<nn::NamedValues> tensors;
    for (const Entry& entry : entries) {
      if (entry.batch_count) continue;
      std::vector<float> values((entry.end - entry.begin) / sizeof(float));
      read(kLengthBytes + header_bytes_ + entry.begin, values.data(), entry.end - entry.begin);
      tensors.push_back({entry.name, Shape(entry.shape), std::move(values)});
    }
    sort_by_name(tensors);
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& expected, const std::string& got) const {
    throw Error(ExitCode::bad_data, Mistake{.where = fmt::format("{}: {}", path_, what),
                                            .expected = expected,
                                            .got = got,
                                            .advice = "the file is damaged or not a checkpoint; use another one"});
  }

  uint64_t data_bytes() const { return file_bytes_ - kLengthBytes - header_bytes_; }

  void read(uint64_t from, void* to, uint64_t bytes) {
    file_.seekg(static_cast<std::streamoff>(from));
    if (!file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)))
      throw Error(ExitCode::io, fmt::format("{}: could not read {} bytes at {}", path_, bytes, from));
  }

  json parsed_header() {
    if (file_bytes_ < kLengthBytes) refuse("the header", "expected at least 8 bytes", fmt::format("{}", file_bytes_));
    read(0, &header_bytes_, kLengthBytes);
    const uint64_t most = std::min(kLargestHeader, file_bytes_ - kLengthBytes);
    if (header_bytes_ > most)
      refuse("the header", fmt::format("expected a length of at most {}", most), fmt::format("{}", header_bytes_));
    std::string text(header_bytes_, ' ');
    read(kLengthBytes, text.data(), header_bytes_);
    HeaderScan scan;
    const json header = json::sax_parse(text, &scan) ? json::parse(text) : json();
    if (!header.is_object())
      refuse("the header", fmt::format("expected a JSON object of at most {} levels", kDeepestHeader),
             "something else");
    std::ranges::sort(scan.names);
    if (const auto twice = std::ranges::adjacent_find(scan.names); twice != scan.names.end())
      refuse(shown(*twice), "expected each name once", "two");
    return header;
  }

  Entry entry_of(const std::string& name, const json& entry) const {
    const std::string what = shown(name);
    const auto has = [&](const char* key) { return entry.is_object() && entry.contains(key); };
    if (!has("dtype") || !has("shape") || !has("data_offsets") || !entry["shape"].is_array() ||
        !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
      refuse(what, "expected dtype, shape and two data_offsets", shown(entry));
    const json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
    const bool batch_count = is_batch_count(name, shape);
    if (!batch_count && (dtype == "F64" || dtype == "F16" || dtype == "BF16"))
      throw Error(ExitCode::bad_data, Mistake{.where = fmt::format("{}: {}", path_, what),
                                              .expected = "expected dtype F32",
                                              .got = shown(dtype),
                                              .advice = "save the model in float32: save_file of net.float()'s state"});
    if (dtype != "F32" && !batch_count) refuse(what, "expected dtype F32", shown(dtype));
    if (shape.size() > static_cast<size_t>(Shape::kMaxRank))
      refuse(what, fmt::format("expected at most {} dimensions", Shape::kMaxRank), fmt::format("{}", shape.size()));
    const auto whole = [](const json& number) { return number.is_number_unsigned(); };
    if (!std::ranges::all_of(shape, whole)) refuse(what, "expected a shape of whole numbers", shown(shape));
    if (!std::ranges::all_of(offsets, whole)) refuse(what, "expected data_offsets of whole numbers", shown(offsets));

    Entry result{.name = name, .shape = {}, .begin = offsets[0], .end = offsets[1], .batch_count = batch_count};
    const uint64_t element_bytes = bytes_of(dtype);
    const uint64_t most = data_bytes() / element_bytes;
    uint64_t elements = 1;
    for (const json& size : shape) {
      result.shape.push_back(size.get<int64_t>());
      if (result.shape.back() < 0 || __builtin_mul_overflow(elements, size.get<uint64_t>(), &elements) ||
          elements > most)
        refuse(what, fmt::format("expected a shape of at most {} values", most), shown(shape));
    }
    if (result.end < result.begin || result.end > data_bytes() || result.end - result.begin != elements * element_bytes)
      refuse(what, fmt::format("expected data_offsets of {} bytes within {}", elements * element_bytes, data_bytes()),
             shown(offsets));
    return result;
  }

  /// The tensors must follow each other from the first byte to the last, without holes and overlaps.
  void check_data_is_covered(std::vector<Entry>& entries) const {
    std::ranges::sort(entries, {}, [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
    uint64_t end = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != end)
        refuse(shown(entry.name), fmt::format("expected it to begin at byte {}, where the tensor before it ends", end),
               fmt::format("{}", entry.begin));
      end = entry.end;
    }
    if (end != data_bytes())
      refuse("the data", fmt::format("expected {} bytes of tensors", end), fmt::format("{}", data_bytes()));
  }

  std::string path_;
  std::ifstream file_;
  uint64_t file_bytes_ = 0;
  uint64_t header_bytes_ = 0;
};

}  // namespace

WrittenFile write_safetensors(const std::filesystem::path& path, const std::vector<nn::NamedValues>& tensors) {
  std::vector<const nn::NamedValues*> sorted;
  for (const auto& tensor : tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, {}, [](const nn::NamedValues* tensor) { return tensor->name; });
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  uint64_t end = 0;
  std::vector<std::span<const std::byte>> parts(2);
  for (const nn::NamedValues* tensor : sorted) {
    const auto bytes = std::as_bytes(std::span(tensor->values));
    header[tensor->name] = {
        {"dtype", "F32"}, {"shape", tensor->shape.dimensions()}, {"data_offsets", {end, end + bytes.size()}}};
    end += bytes.size();
    parts.push_back(bytes);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  parts[0] = std::as_bytes(std::span(&length, 1));
  parts[1] = std::as_bytes(std::span(text));
  write_file_atomically(path, parts);
  Sha256 hash;
  for (const auto part : parts) hash.update(part);
  return {.bytes = sizeof length + length + end, .sha256 = hash.hex_digest()};
}

std::vector<nn::NamedValues> read_safetensors(const std::filesystem::path& path) { return Reader(path).tensors(); }

void require_finite_tensors(const std::vector<nn::NamedValues>& tensors, const std::string& where) {
  for (const nn::NamedValues& tensor : tensors) {
    if (are_finite(tensor.values)) continue;
    const auto found = std::ranges::find_if(tensor.values, [](float value) { return !std::isfinite(value); });
    throw Error(ExitCode::bad_data,
                Mistake{.where = fmt::format("{}: {}", where, tensor.name),
                        .expected = "expected finite values",
                        .got = fmt::format("{} as number {}", *found, found - tensor.values.begin() + 1),
                        .advice = "the run that wrote it has diverged; use an earlier checkpoint"});
  }
}

void WeightsHash::add(const nn::NamedValues& tensor) {
  hash_.update(fmt::format("{}\nF32\n{}\n", tensor.name, tensor.shape.text()));
  hash_.update(std::as_bytes(std::span(tensor.values)));
}

std::string weights_hash(const std::vector<nn::NamedValues>& tensors) {
  std::vector<const nn::NamedValues*> sorted;
  for (const auto& tensor : tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, {}, [](const nn::NamedValues* tensor) -> const std::string& { return tensor->name; });
  WeightsHash hash;
  for (const auto* tensor : sorted) hash.add(*tensor);
  return hash.hex_digest();
}

}  // namespace dptrain::train
