#include "parallel/text_numbers.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace dptrain::parallel {
namespace {

int64_t size_of(const std::vector<int32_t>& numbers) { return static_cast<int64_t>(numbers.size()); }

}  // namespace

int64_t count_text_numbers(const BatchPart& part) {
  const TextPart& text = part.text;
  if (text.tokens.empty()) return 0;
  int64_t count = 3 * size_of(text.tokens) + 2 * part.samples() + size_of(text.predicted);
  for (const auto& labels : part.targets) count += size_of(labels);
  return count;
}

int32_t* write_text_numbers(const BatchPart& part, int32_t* out) {
  const TextPart& text = part.text;
  if (text.tokens.empty()) return out;
  const auto append = [&out](const std::vector<int32_t>& more) { out = std::ranges::copy(more, out).out; };
  const auto length = static_cast<int32_t>(size_of(text.tokens) / part.samples());
  append(text.tokens);
  append(text.segments);
  for (int64_t n = 0; n < part.samples(); ++n, out += length) std::iota(out, out + length, 0);
  append(text.lengths);
  for (int32_t n = 0; n < part.samples(); ++n) *out++ = n * length;
  append(text.predicted);
  for (const auto& labels : part.targets) append(labels);
  return out;
}

std::vector<int32_t> text_numbers(const BatchPart& part) {
  std::vector<int32_t> numbers(static_cast<size_t>(count_text_numbers(part)));
  write_text_numbers(part, numbers.data());
  return numbers;
}

TextOnDevice cut_text(const Tensor& numbers, const BatchPart& part) {
  const int64_t samples = part.samples(), length = size_of(part.text.tokens) / samples;
  DPTRAIN_CHECK(numbers.elements() == count_text_numbers(part), "{} numbers of a text, {} expected", numbers.elements(),
                count_text_numbers(part));
  int64_t offset = 0;
  const auto cut = [&](const Shape& shape) {
    const Tensor piece = numbers.window(offset, shape, Layout::plain);
    offset += shape.elements();
    return piece;
  };
  TextOnDevice text;
  text.tokens = cut({samples, length});
  text.inputs.segments = cut({samples, length});
  text.inputs.positions = cut({samples, length});
  text.inputs.lengths = cut({samples});
  const int64_t predicted = size_of(part.text.predicted);
  if (predicted > 0) text.inputs.read = numbers.window(offset, {samples + predicted}, Layout::plain);
  text.inputs.firsts = cut({samples});
  offset += predicted;
  for (const auto& labels : part.targets) text.targets.push_back(cut({size_of(labels)}));
  return text;
}

BatchPart share_of(const BatchPart& part, int64_t begin, int64_t end) {
  const auto cut = [](const std::vector<int32_t>& from, int64_t first, int64_t last) {
    return std::vector<int32_t>(from.begin() + first, from.begin() + last);
  };
  BatchPart share;
  share.sample_ids.assign(part.sample_ids.begin() + begin, part.sample_ids.begin() + end);
  const TextPart& text = part.text;
  if (text.tokens.empty()) {
    for (const auto& labels : part.targets) share.targets.push_back(cut(labels, begin, end));
    return share;
  }
  if (begin == end) {
    share.targets.resize(part.targets.size());
    return share;
  }
  const int64_t length = size_of(text.tokens) / part.samples();
  share.text.tokens = cut(text.tokens, begin * length, end * length);
  share.text.segments = cut(text.segments, begin * length, end * length);
  share.text.lengths = cut(text.lengths, begin, end);
  share.targets = {{}, cut(part.targets[1], begin, end)};
  for (size_t i = 0; i < text.predicted.size(); ++i) {
    const int32_t row = text.predicted[i], label = part.targets[0][i];
    if (label < 0 || row < begin * length || row >= end * length) continue;
    share.text.predicted.push_back(static_cast<int32_t>(row - begin * length));
    share.targets[0].push_back(label);
  }
  pad_predicted(share);
  return share;
}

}  // namespace dptrain::parallel
