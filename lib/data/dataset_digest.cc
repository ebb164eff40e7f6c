#include "data/dataset_digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "base/sha256.h"

namespace dptrain {

std::string digest_of(const Dataset& dataset) {
  if (const auto* text = dynamic_cast<const TextDataset*>(&dataset)) return text->digest();
  const auto& images = dynamic_cast<const ImageDataset&>(dataset);
  Sha256 digest;
  digest.update(fmt::format("{} {} {} {}", images.samples(), images.classes(),
                            fmt::join(images.image_shape().dimensions(), " "), images.content_digest()));
  digest.update(std::as_bytes(images.table()));
  return digest.hex_digest();
}

}  // namespace dptrain
