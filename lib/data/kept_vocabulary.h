#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/text_lines.h"
#include "data/tokenizer.h"

namespace dptrain {

struct KeptVocabularyOptions {
  int64_t pieces = 0;
  std::string name;                                 ///< the name of the text: the beginning of the file's name
  std::vector<std::filesystem::path> folders = {};  ///< tried in this order, and made if they are missing
};

/// Returns the tokenizer of a text. Its vocabulary is read if one of the folders has it. Otherwise it is trained (4
/// seconds for a text of 4 MB) and kept in the first folder that can be written, if any. The file is called
/// <name>.<pieces>.<digest of the lines>.vocabulary, so that another text or another size has another file. It is a
/// line with a checksum, then SentencePiece's model. It is written aside and renamed: if two processes train at once,
/// either may come last, with the same bytes.
///
/// Throws 65 for a kept vocabulary that is corrupt or of another size, saying which file to delete. Throws what
/// train_vocabulary throws.
Tokenizer kept_tokenizer(const TextLines& lines, const KeptVocabularyOptions& options);

}  // namespace dptrain
