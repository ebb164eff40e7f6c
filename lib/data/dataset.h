#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace dptrain {

/// Which part of a data set.
enum class DatasetSplit { train, test };

/// Samples to learn from: images, or text. Immutable and shared by all devices of a process.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t samples() const = 0;
  /// Bytes of samples in the memory of this process. Samples that are only in files don't count.
  virtual int64_t held_bytes() const = 0;
  /// Bytes of samples that this process has read or made so far. Bytes that it has read twice count once.
  virtual int64_t read_bytes() const = 0;
};

/// Labelled images: bytes that a table turns into numbers. They are in memory, or in files that are read when images
/// are asked for; reading files may throw 65 and 74, see stored_file.h.
class ImageDataset : public Dataset {
 public:
  /// [C, H, W]
  virtual Shape image_shape() const = 0;
  virtual int64_t classes() const = 0;
  /// A name for each class; empty if classes have only numbers.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// Writes image `index` as C*H*W floats, normalized as the configuration says (by default pixels / 255).
  virtual void image(int64_t index, std::span<float> out) const = 0;
  /// 0 to classes() - 1.
  virtual int32_t label(int64_t index) const = 0;
  /// Copies the bytes of image `first` and of the images after it, as many as `out` has room for: [n, C, H, W].
  virtual void pixels(int64_t first, std::span<uint8_t> out) const = 0;
  /// Reads samples `begin` to `end` - 1 once, in order, if they are only in files. The operating system then has them
  /// in memory when they are asked for in any order. Does nothing for other data sets.
  virtual void read_ahead(int64_t begin, int64_t end) const = 0;
  /// [C, 256]: the normalized value of every byte, by channel. Valid as long as the data set.
  virtual std::span<const float> table() const = 0;
  /// SHA-256 of all bytes and labels, as hex digits. Reads them all, unless the digest was kept (see kept_digest.h).
  virtual std::string content_digest() const = 0;
};

/// The label of a row that isn't to be predicted.
inline constexpr int32_t kIgnoredLabel = -100;

/// Where a sample of text is written: three spans, each with one number per token of the sequence.
struct TextSample {
  std::span<int32_t> tokens;    ///< [CLS] A [SEP] B [SEP] [PAD] ..., some of A and B masked
  std::span<int32_t> segments;  ///< 0 up to the first [SEP], 1 up to the second, 0 for [PAD]
  std::span<int32_t> labels;    ///< the original tokens at the places to be predicted, kIgnoredLabel elsewhere
  int32_t next_sentence = 0;    ///< 0: B follows A in the text; 1: it doesn't
};

/// Pairs of sentences with masked tokens, drawn anew each epoch.
class TextDataset : public Dataset {
 public:
  /// Tokens of a sample, padding included.
  virtual int64_t sequence() const = 0;
  /// Tokens are 0 to vocabulary_size() - 1.
  virtual int64_t vocabulary_size() const = 0;
  /// Tells vocabularies apart: equal if every token means the same. Empty if tokens are made up.
  virtual std::string vocabulary_digest() const = 0;
  /// Tells texts apart: equal if all samples are, given the same seed (see dataset_digest.h).
  virtual std::string digest() const = 0;
  /// Writes sample `index` of epoch `epoch` (from 1) to `out`.
  virtual void sample(int64_t index, int64_t epoch, TextSample& out) const = 0;
};

/// The parts of one data set, all of one kind.
struct Datasets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  /// The samples held out of the training set (held_out.h); null if there are none.
  std::shared_ptr<const Dataset> validation = {};
};

/// The parts of a data set that is known to have images.
struct ImageDatasets {
  std::shared_ptr<const ImageDataset> train;
  std::shared_ptr<const ImageDataset> test;

  operator Datasets() const { return {.train = train, .test = test}; }
};

}  // namespace dptrain
