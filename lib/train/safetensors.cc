#include "train/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

namespace dptrain::train {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own limit

void sort_by_name(std::vector<nn::NamedValues>& tensors) { std::ranges::sort(tensors, {}, &nn::NamedValues::name); }

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : path_(path.string()), bytes_(read_file(path, uint64_t{1} << 36)) {}

  std::vector<nn::NamedValues> tensors() {
    const json header = parsed_header();
    std::vector<nn::NamedValues> tensors;
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      ranges.push_back({});
      tensors.push_back(tensor(name, entry, ranges.back()));
    }
    std::ranges::sort(ranges);
    uint64_t end = 0;
    for (const auto& [first, last] : ranges) {
      if (first != end)
        refuse("the data", fmt::format("expected tensors one after the other, the next at byte {}", end),
               fmt::format("{}", first));
      end = last;
    }
    if (end != data_bytes())
      refuse("the data", fmt::format("expected {} bytes of tensors", end), fmt::format("{}", data_bytes()));
    sort_by_name(tensors);
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& expected, const std::string& got) const {
    throw Error(ExitCode::bad_data, Mistake{.where = fmt::format("{}: {}", path_, what),
                                            .expected = expected,
                                            .got = got,
                                            .advice = "the file is damaged or no checkpoint; use another one"});
  }

  uint64_t data_bytes() const { return bytes_.size() - kLengthBytes - header_bytes_; }

  json parsed_header() {
    if (bytes_.size() < kLengthBytes)
      refuse("the header", "expected at least 8 bytes", fmt::format("{}", bytes_.size()));
    std::memcpy(&header_bytes_, bytes_.data(), kLengthBytes);
    if (header_bytes_ > kLargestHeader || header_bytes_ > bytes_.size() - kLengthBytes)
      refuse("the header", fmt::format("expected a length of at most {}", bytes_.size() - kLengthBytes),
             fmt::format("{}", header_bytes_));
    // A name that stands twice would be lost in a JSON object, so that names are counted while they are read.
    std::vector<std::string> names;
    const auto collect = [&names](int depth, json::parse_event_t event, json& value) {
      if (depth == 1 && event == json::parse_event_t::key) names.push_back(value.get<std::string>());
      return true;
    };
    const std::string_view text = std::string_view(bytes_).substr(kLengthBytes, header_bytes_);
    const json header = json::parse(text, collect, false);
    if (!header.is_object()) refuse("the header", "expected a JSON object", "something else");
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
      refuse(*twice, "expected each name once", "two");
    return header;
  }

  nn::NamedValues tensor(const std::string& name, const json& entry, std::pair<uint64_t, uint64_t>& range) {
    const auto has = [&](const char* key) { return entry.is_object() && entry.contains(key); };
    if (!has("dtype") || !has("shape") || !has("data_offsets") || !entry["shape"].is_array() ||
        !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
      refuse(name, "expected dtype, shape and two data_offsets", entry.dump(-1, ' ', true).substr(0, 80));
    if (entry["dtype"] != "F32") refuse(name, "expected dtype F32", entry["dtype"].dump());
    if (entry["shape"].size() > static_cast<size_t>(Shape::kMaxRank))
      refuse(name, fmt::format("expected at most {} dimensions", Shape::kMaxRank),
             fmt::format("{}", entry["shape"].size()));
    std::vector<int64_t> sizes;
    uint64_t elements = 1;
    for (const json& size : entry["shape"]) {
      if (!size.is_number_unsigned()) refuse(name, "expected a shape of whole numbers", entry["shape"].dump());
      sizes.push_back(size.get<int64_t>());
      if (sizes.back() < 0 || __builtin_mul_overflow(elements, size.get<uint64_t>(), &elements) ||
          elements > data_bytes() / sizeof(float))
        refuse(name, fmt::format("expected a shape of at most {} values", data_bytes() / sizeof(float)),
               entry["shape"].dump());
    }
    for (const json& offset : entry["data_offsets"])
      if (!offset.is_number_unsigned())
        refuse(name, "expected data_offsets of whole numbers", entry["data_offsets"].dump());
    range = {entry["data_offsets"][0].get<uint64_t>(), entry["data_offsets"][1].get<uint64_t>()};
    if (range.second < range.first || range.second > data_bytes() ||
        range.second - range.first != elements * sizeof(float))
      refuse(name, fmt::format("expected data_offsets of {} bytes within {}", elements * sizeof(float), data_bytes()),
             entry["data_offsets"].dump());
    nn::NamedValues values{name, Shape(sizes), std::vector<float>(elements)};
    std::memcpy(values.values.data(), bytes_.data() + kLengthBytes + header_bytes_ + range.first,
                elements * sizeof(float));
    return values;
  }

  std::string path_;
  std::string bytes_;
  uint64_t header_bytes_ = 0;
};

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<nn::NamedValues>& tensors) {
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
}

std::vector<nn::NamedValues> read_safetensors(const std::filesystem::path& path) { return Reader(path).tensors(); }

std::string weights_hash(std::vector<nn::NamedValues> tensors) {
  sort_by_name(tensors);
  Sha256 hash;
  for (const auto& tensor : tensors) {
    hash.update(fmt::format("{}\nF32\n{}\n", tensor.name, tensor.shape.text()));
    hash.update(std::as_bytes(std::span(tensor.values)));
  }
  return hash.hex_digest();
}

}  // namespace dptrain::train
