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

/// Samples to learn from: images, or text. Immutable, shared by all devices of a process.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t samples() const = 0;
  /// Of its samples in the memory of this process; those that lie in files alone are in none.
  virtual int64_t held_bytes() const = 0;
  /// Of its samples that this process has read so far, or made; what it has read twice counts once.
  virtual int64_t read_bytes() const = 0;
};

/// Labelled images, bytes that a table turns into numbers. They are in memory, or in files that are read as images are
/// asked for; these may throw 65 and 74, see stored_file.h.
class ImageDataset : public Dataset {
 public:
  /// [C, H, W]
  virtual Shape image_shape() const = 0;
  virtual int64_t classes() const = 0;
  /// A name for each class; empty where they have numbers alone.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// Writes image `index` as C*H*W floats, normalized as the configuration says (by default pixels / 255).
  virtual void image(int64_t index, std::span<float> out) const = 0;
  /// 0 to classes() - 1.
  virtual int32_t label(int64_t index) const = 0;
  /// Copies the bytes of image `first` and those after it, as many as `out` has room for: [n, C, H, W].
  virtual void pixels(int64_t first, std::span<uint8_t> out) const = 0;
  /// Reads samples `begin` to `end` - 1 once, in order, where they lie in files alone, so that they are in the memory
  /// of the operating system once they are asked for in any order. Does nothing of others.
  virtual void read_ahead(int64_t begin, int64_t end) const = 0;
  /// [C, 256]: the normalized values of all bytes, by channel; valid as long as the data set.
  virtual std::span<const float> table() const = 0;
  /// SHA-256 of all bytes and labels, as hex digits. Reads them all, unless it was kept (see kept_digest.h).
  virtual std::string content_digest() const = 0;
};

/// The label of what isn't to be predicted.
inline constexpr int32_t kIgnoredLabel = -100;

/// Where a sample of text is written: three spans of as many numbers as the sequence has tokens.
struct TextSample {
  std::span<int32_t> tokens;    ///< [CLS] A [SEP] B [SEP] [PAD] ..., some of A and B masked
  std::span<int32_t> segments;  ///< 0 up to the first [SEP], 1 up to the second, 0 for [PAD]
  std::span<int32_t> labels;    ///< the tokens that were chosen to be predicted, kIgnoredLabel elsewhere
  int32_t next_sentence = 0;    ///< 0: B follows A in the text; 1: it doesn't
};

/// Pairs of sentences with masked tokens, drawn anew each epoch.
class TextDataset : public Dataset {
 public:
  /// Tokens of a sample, padding included.
  virtual int64_t sequence() const = 0;
  /// Tokens are 0 to vocabulary_size() - 1.
  virtual int64_t vocabulary_size() const = 0;
  /// Tells vocabularies apart: equal where a token means the same. Empty where tokens are made up.
  virtual std::string vocabulary_digest() const = 0;
  /// Tells texts apart: equal where all samples are, given the same seed (see dataset_digest.h).
  virtual std::string digest() const = 0;
  /// Writes sample `index` of epoch `epoch` (from 1) to `out`.
  virtual void sample(int64_t index, int64_t epoch, TextSample& out) const = 0;
};

/// The parts of one data set, of one kind.
struct Datasets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  /// What was held out of the training set (held_out.h); null where nothing was.
  std::shared_ptr<const Dataset> validation = {};
};

/// The same where they are known to be images.
struct ImageDatasets {
  std::shared_ptr<const ImageDataset> train;
  std::shared_ptr<const ImageDataset> test;

  operator Datasets() const { return {.train = train, .test = test}; }
};

}  // namespace dptrain
