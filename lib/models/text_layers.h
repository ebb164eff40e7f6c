#pragma once

#include "models/layer_table.h"

namespace dptrain::models {

/// The beginning of a net of text.
struct TextEmbedding {
  TextSizes text;    ///< what it takes
  BuildLayer build;  ///< tokens [N, S] -> [N, S, E]
};

/// Reads features, vocab, seq, positions, segments and init of an `embedding`.
TextEmbedding read_text_embedding(ConfigReader& options);

/// Reads heads, dropout and init of `attention`: [N, S, E] -> [N, S, E].
BuildLayer read_attention(ConfigReader& options);

/// Of the `pretraining_head` that ends a net of text; it has no options.
BuildLayer read_pretraining_head(ConfigReader& options);

}  // namespace dptrain::models
