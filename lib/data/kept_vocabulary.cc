#include "data/kept_vocabulary.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

namespace dptrain {
namespace {

/// The beginning of the file; the checksum of the model and a line feed follow.
constexpr std::string_view kHeader = "dptrain vocabulary ";
constexpr size_t kChecksumDigits = 64;

/// Part of the digest, so that another way to train has another file.
constexpr std::string_view kRecipe = "unigram, cased, nmt_nfkc, all characters\n";

/// 16 hex digits of the hash of the lines and of the way to train.
std::string digest(const TextLines& lines) {
  Sha256 sha;
  sha.update(kRecipe);
  for (int64_t i = 0; i < lines.count(); ++i) {
    sha.update(lines[i]);
    sha.update("\n");
  }
  return sha.hex_digest().substr(0, 16);
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string expected, std::string got) {
  throw Error(ExitCode::bad_data, Mistake{.where = path.string(),
                                          .expected = std::move(expected),
                                          .got = std::move(got),
                                          .advice = "delete the file, and dptrain makes it again"});
}

Tokenizer load(const std::filesystem::path& path, int64_t pieces) {
  const std::string file = read_file(path);
  const size_t header = kHeader.size() + kChecksumDigits + 1;
  if (file.size() < header || !file.starts_with(kHeader) || file[header - 1] != '\n')
    refuse(path, "expected a vocabulary file of dptrain", fmt::format("{} bytes of something else", file.size()));
  const std::string_view model = std::string_view(file).substr(header);
  if (sha256_of(model) != std::string_view(file).substr(kHeader.size(), kChecksumDigits))
    refuse(path, "expected a vocabulary that matches the checksum in its first line", "different bytes");
  std::optional<Tokenizer> tokenizer = Tokenizer::load(model);
  const int64_t found = tokenizer ? tokenizer->vocabulary_size() : 0;
  if (found != pieces)
    refuse(path, fmt::format("expected a vocabulary of {} pieces", pieces), fmt::format("{}", found));
  return *std::move(tokenizer);
}

/// Writes the vocabulary; returns whether the folder could be written.
bool keep(const std::filesystem::path& folder, const std::string& name, const std::string& model) {
  try {
    make_folder(folder);
    write_file_atomically(folder / name, fmt::format("{}{}\n{}", kHeader, sha256_of(model), model));
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::io) throw;
    return false;
  }
}

}  // namespace

Tokenizer kept_tokenizer(const TextLines& lines, const KeptVocabularyOptions& options) {
  const std::string name = fmt::format("{}.{}.{}.vocabulary", options.name, options.pieces, digest(lines));
  for (const auto& folder : options.folders) {
    std::error_code unreadable;
    if (std::filesystem::exists(folder / name, unreadable)) return load(folder / name, options.pieces);
  }
  const std::string model = train_vocabulary(lines, options.pieces);
  for (const auto& folder : options.folders)
    if (keep(folder, name, model)) break;
  std::optional<Tokenizer> tokenizer = Tokenizer::load(model);
  DPTRAIN_CHECK(tokenizer, "a vocabulary of {} pieces that can't be read", options.pieces);
  return *std::move(tokenizer);
}

}  // namespace dptrain
