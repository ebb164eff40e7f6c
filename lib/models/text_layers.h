#pragma once

#include "models/layer_table.h"

namespace dptrain::models {

/// The first layer of a net of text.
struct TextEmbedding {
  TextSizes text;    ///< the sizes of text that it takes
  BuildLayer build;  ///< tokens [N, S] -> [N, S, E]
};

/// Reads features, vocab, seq, positions, segments and init of an `embedding`.
TextEmbedding read_text_embedding(ConfigReader& options);

/// Reads heads, dropout and init of `attention`: [N, S, E] -> [N, S, E].
BuildLayer read_attention(ConfigReader& options);

/// Reads a `pretraining_head`, which ends a net of text; it has no options.
BuildLayer read_pretraining_head(ConfigReader& options);

}  // namespace dptrain::models
