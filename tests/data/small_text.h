#pragma once

#include "data/text_lines.h"

namespace dptrain::testing {

/// Enough English for a vocabulary of 60 pieces. The letters B, k, L and z are rare in it.
inline TextLines small_text() {
  TextLines lines;
  for (const char* line :
       {"In the beginning God created the heaven and the earth.", "And the earth was without form, and void;",
        "and darkness was upon the face of the deep.", "And the Spirit of God moved upon the face of the waters.",
        "And God said, Let there be light: and there was light.", "And God saw the light, that it was good:",
        "and God divided the light from the darkness.", "And God called the light Day,",
        "and the darkness he called Night.", "And the evening and the morning were the first day.",
        "Be fruitful, and multiply, and fill the waters in the seas.", "A lizard, a quail and an ox."})
    lines.append(line);
  return lines;
}

}  // namespace dptrain::testing
