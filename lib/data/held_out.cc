#include "data/held_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "data/epoch_order.h"

namespace dptrain {
namespace {

/// The samples of another data set that a data set consists of, in ascending order.
using Chosen = std::vector<int64_t>;

/// Tells a choice of samples apart from others of the same data set.
std::string digest_of_chosen(const std::string& whole, const Chosen& chosen) {
  Sha256 digest;
  digest.update(whole);
  digest.update(std::as_bytes(std::span(chosen)));
  return digest.hex_digest();
}

class ChosenImages final : public ImageDataset {
 public:
  ChosenImages(std::shared_ptr<const ImageDataset> whole, Chosen chosen)
      : whole_(std::move(whole)), chosen_(std::move(chosen)) {}

  int64_t samples() const override { return static_cast<int64_t>(chosen_.size()); }
  int64_t held_bytes() const override { return whole_->held_bytes(); }
  int64_t read_bytes() const override { return whole_->read_bytes(); }
  Shape image_shape() const override { return whole_->image_shape(); }
  int64_t classes() const override { return whole_->classes(); }
  std::vector<std::string> class_names() const override { return whole_->class_names(); }
  std::span<const float> table() const override { return whole_->table(); }
  void image(int64_t index, std::span<float> out) const override { whole_->image(place_of(index), out); }
  int32_t label(int64_t index) const override { return whole_->label(place_of(index)); }
  void pixels(int64_t first, std::span<uint8_t> out) const override {
    const auto of_image = static_cast<size_t>(image_shape().elements());
    while (!out.empty()) {
      const int64_t run = length_of_run(first, static_cast<int64_t>(out.size() / of_image));
      const size_t bytes = static_cast<size_t>(run) * of_image;
      whole_->pixels(place_of(first), out.first(bytes));
      out = out.subspan(bytes);
      first += run;
    }
  }
  /// Also reads the samples between the chosen ones: they are in the same pieces of the file.
  void read_ahead(int64_t begin, int64_t end) const override {
    if (begin < end) whole_->read_ahead(place_of(begin), place_of(end - 1) + 1);
  }
  std::string content_digest() const override { return digest_of_chosen(whole_->content_digest(), chosen_); }

 private:
  int64_t place_of(int64_t index) const { return chosen_[static_cast<size_t>(index)]; }
  /// The number of samples from `first` on that are consecutive in the whole data set; at least 1, at most `most`.
  int64_t length_of_run(int64_t first, int64_t most) const {
    int64_t length = 1;
    while (length < most && place_of(first + length) == place_of(first) + length) ++length;
    return length;
  }

  std::shared_ptr<const ImageDataset> whole_;
  Chosen chosen_;
};

class ChosenText final : public TextDataset {
 public:
  /// `epoch`: the epoch whose draws all samples use, as validation samples must not change; empty: the epoch asked for.
  ChosenText(std::shared_ptr<const TextDataset> whole, Chosen chosen, std::optional<int64_t> epoch)
      : whole_(std::move(whole)), chosen_(std::move(chosen)), epoch_(epoch) {}

  int64_t samples() const override { return static_cast<int64_t>(chosen_.size()); }
  int64_t held_bytes() const override { return whole_->held_bytes(); }
  int64_t read_bytes() const override { return whole_->read_bytes(); }
  int64_t sequence() const override { return whole_->sequence(); }
  int64_t vocabulary_size() const override { return whole_->vocabulary_size(); }
  std::string vocabulary_digest() const override { return whole_->vocabulary_digest(); }
  std::string digest() const override { return digest_of_chosen(whole_->digest(), chosen_); }
  void sample(int64_t index, int64_t epoch, TextSample& out) const override {
    whole_->sample(chosen_[static_cast<size_t>(index)], epoch_.value_or(epoch), out);
  }

 private:
  std::shared_ptr<const TextDataset> whole_;
  Chosen chosen_;
  std::optional<int64_t> epoch_;
};

std::shared_ptr<const Dataset> choose(const std::shared_ptr<const Dataset>& whole, Chosen chosen,
                                      std::optional<int64_t> epoch) {
  std::ranges::sort(chosen);
  if (auto images = std::dynamic_pointer_cast<const ImageDataset>(whole))
    return std::make_shared<ChosenImages>(std::move(images), std::move(chosen));
  auto text = std::dynamic_pointer_cast<const TextDataset>(whole);
  DPTRAIN_CHECK(text != nullptr, "a data set is of images or of text");
  return std::make_shared<ChosenText>(std::move(text), std::move(chosen), epoch);
}

}  // namespace

Datasets hold_out(const Datasets& data, int64_t samples) {
  const int64_t all = data.train->samples();
  DPTRAIN_CHECK(samples > 0 && samples < all, "{} of {} samples can't be held out", samples, all);
  // Epochs of a run count from 1, so no run draws from epoch 0.
  constexpr int64_t kNoEpoch = 0;
  const std::vector<int64_t> order = epoch_order(all, {.seed = 0, .epoch = kNoEpoch, .shuffle = true});
  const auto border = order.begin() + samples;
  return {.train = choose(data.train, {border, order.end()}, {}),
          .test = data.test,
          .validation = choose(data.train, {order.begin(), border}, kNoEpoch)};
}

}  // namespace dptrain
