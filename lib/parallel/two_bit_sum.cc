#include "parallel/two_bit_sum.h"

#include <utility>

#include "ops/residual.h"
#include "ops/two_bit.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {

Tensor TwoBitSum::Messages::words_from(int64_t word) const {
  return bytes.part(4 * word, DType::i32, {bytes.elements() / 4 - word});
}

Tensor TwoBitSum::Messages::thresholds_from(int64_t entry) const {
  const int64_t first = words + entry;
  return bytes.part(4 * first, DType::f32, {bytes.elements() / 4 - first});
}

TwoBitSum::TwoBitSum(Communicator& communicator, Options options)
    : communicator_(communicator), options_(std::move(options)) {
  int64_t words = 0;
  for (const Entry& entry : options_.entries) {
    first_words_.push_back(words);
    words += ops::two_bit_words(entry.gradient);
  }
  const auto entries = static_cast<int64_t>(options_.entries.size());
  const auto messages = [&](int64_t ranks) {
    return Messages{.bytes = Tensor::empty(options_.entries[0].gradient.device(), {ranks * 4 * (words + entries)},
                                           {.dtype = DType::u8, .purpose = MemoryPurpose::communication}),
                    .words = words,
                    .entries = entries};
  };
  own_ = messages(1);
  all_ = messages(communicator.size());
}

void TwoBitSum::start() {
  for (size_t e = 0; e < options_.entries.size(); ++e) {
    const auto& [gradient, residual] = options_.entries[e];
    ops::take_up_residual(residual, gradient, options_.loss_factor);
    const Tensor threshold = own_.thresholds_from(static_cast<int64_t>(e)).samples(0, 1);
    ops::two_bit_threshold(residual, options_.threshold, threshold);
    ops::two_bit_encode(residual, threshold, own_.words_from(first_words_[e]).samples(0, ops::two_bit_words(residual)));
    decode(e, own_, 1);
    ops::leave_residual(residual, gradient, options_.loss_factor);
  }
  gathering_ = communicator_.start_all_gather(comm_buffer(own_.bytes), comm_buffer(all_.bytes));
}

void TwoBitSum::finish() {
  gathering_->wait();
  gathering_.reset();
  for (size_t e = 0; e < options_.entries.size(); ++e) decode(e, all_, communicator_.size());
}

void TwoBitSum::decode(size_t entry, const Messages& messages, int64_t ranks) const {
  ops::two_bit_decode({.words = messages.words_from(first_words_[entry]),
                       .thresholds = messages.thresholds_from(static_cast<int64_t>(entry)),
                       .ranks = ranks,
                       .stride = messages.words + messages.entries},
                      options_.entries[entry].gradient);
}

}  // namespace dptrain::parallel
