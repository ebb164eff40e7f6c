#pragma once

#include <array>

#include "base/random.h"
#include "ops/attention.h"
#include "ops/cuda_kernels.h"

// Draws which probabilities dropout keeps, inside the kernels of attention_fused_*_cuda.cu. For .cu files only.

namespace dptrain::ops::cuda {

/// The parameters of dropout, as a kernel's argument: threads read them from constant memory where they use them.
struct AttentionDropout {
  uint32_t threshold = 0;          ///< 0: nothing is dropped
  uint32_t kept_if_none = ~0u;     ///< all bits are set if nothing is drawn, else none
  float scale = 1;                 ///< factor of what is kept
  uint64_t counter = 0;            ///< number of the layer's first block of words
  const int32_t* epoch = nullptr;  ///< [1]
  const int64_t* ids = nullptr;    ///< [samples]
  uint32_t keys[10][2] = {};       ///< a pair for each of Philox's rounds

  static AttentionDropout of(const AttentionOptions& options) {
    AttentionDropout dropout;
    dropout.threshold = dropout_threshold(options.dropout);
    if (dropout.threshold == 0) return dropout;
    dropout.kept_if_none = 0, dropout.scale = 1.f / (1.f - options.dropout);
    dropout.counter = uint64_t{options.key.layer} << 40;
    dropout.epoch = options.key.epoch.data<int32_t>(), dropout.ids = options.key.sample_ids.data<int64_t>();
    const std::array<uint32_t, 2> key = KeyedRandom(options.key.seed, RandomPurpose::dropout, 0, 0).key();
    for (uint32_t round = 0; round < 10; ++round) {
      dropout.keys[round][0] = key[0] + round * 0x9E3779B9u;
      dropout.keys[round][1] = key[1] + round * 0xBB67AE85u;
    }
    return dropout;
  }
};

/// Which elements of a sample's [H, S, S] dropout keeps. It draws the same words as a CPU worker: those of
/// base/random.h's KeyedRandom for (epoch, sample).
class KeptElements {
 public:
  __device__ KeptElements(const AttentionDropout& dropout, int64_t sample) : dropout_(dropout) {
    if (dropout.threshold == 0) return;
    epoch_ = static_cast<uint32_t>(*dropout.epoch), subject_ = static_cast<uint32_t>(dropout.ids[sample]);
  }

  /// Returns a bit for each of kCount elements, up to 32: bit i says whether element `first + i` is kept. Four elements
  /// share a block of words, about 60 instructions. As `first` may be anywhere in a block, it draws kCount / 4 + 1
  /// blocks.
  template <int kCount>
  __device__ uint32_t draw(int64_t first) const {
    uint64_t kept = 0;
    if (dropout_.threshold != 0) {
      const uint64_t begin = dropout_.counter + static_cast<uint64_t>(first / 4);
#pragma unroll 3
      for (unsigned block = 0; block <= kCount / 4; ++block) kept |= uint64_t{four(begin + block)} << (4 * block);
    }
    return static_cast<uint32_t>(kept >> (first % 4)) | dropout_.kept_if_none;
  }

 private:
  /// Returns a bit for each of the four words of a block: whether the word's element is kept.
  __device__ uint32_t four(uint64_t block) const {
    uint32_t words[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), subject_, epoch_};
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53u} * words[0], product1 = uint64_t{0xCD9E8D57u} * words[2];
      words[0] = static_cast<uint32_t>(product1 >> 32) ^ words[1] ^ dropout_.keys[round][0];
      words[1] = static_cast<uint32_t>(product1);
      words[2] = static_cast<uint32_t>(product0 >> 32) ^ words[3] ^ dropout_.keys[round][1];
      words[3] = static_cast<uint32_t>(product0);
    }
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(words[i] >= dropout_.threshold) << i;
    return bits;
  }

  const AttentionDropout& dropout_;
  uint32_t epoch_ = 0, subject_ = 0;
};

}  // namespace dptrain::ops::cuda
