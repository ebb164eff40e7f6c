#include "ops/two_bit.h"

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/two_bit_cpu.h"
#include "ops/two_bit_cuda.h"

namespace dptrain::ops {

void two_bit_threshold(const Tensor& values, double share, const Tensor& threshold) {
  Device& device = common_device("two_bit_threshold", {&values, &threshold});
  on_device(
      "two_bit_threshold", device, [&] { cpu::two_bit_threshold(values, share, threshold); },
      [&] { cuda::two_bit_threshold(values, share, threshold); });
}

void two_bit_encode(const Tensor& values, const Tensor& threshold, const Tensor& words) {
  Device& device = common_device("two_bit_encode", {&values, &threshold, &words});
  require_shape("two_bit_encode", "words", words.shape(), {two_bit_words(values)});
  on_device(
      "two_bit_encode", device, [&] { cpu::two_bit_encode(values, threshold, words); },
      [&] { cuda::two_bit_encode(values, threshold, words); });
}

void two_bit_decode(const TwoBitMessages& messages, const Tensor& sum) {
  Device& device = common_device("two_bit_decode", {&messages.words, &messages.thresholds, &sum});
  const int64_t last = (messages.ranks - 1) * messages.stride;
  DPTRAIN_CHECK(0 < messages.ranks && messages.ranks <= kMostTwoBitRanks &&
                    last + two_bit_words(sum) <= messages.words.elements() && last < messages.thresholds.elements(),
                "two_bit_decode: {} ranks {} apart in {}, for {}", messages.ranks, messages.stride,
                messages.words.text(), sum.text());
  on_device(
      "two_bit_decode", device, [&] { cpu::two_bit_decode(messages, sum); },
      [&] { cuda::two_bit_decode(messages, sum); });
}

}  // namespace dptrain::ops
