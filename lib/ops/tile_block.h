#pragma once

// How *_bf16.cc multiply blocks of tiles, with the instructions for which they are compiled:
//
//   multiply_block<Rows, Columns>(steps, accumulate, sums, stride)
//
// A block has 32 rows of 32 sums, with rows `stride` floats apart; only `Rows` by `Columns` (1 or 2 each) tiles of it
// are computed. steps(step) must call step(left, right, second_right) for each 32 of the depth, in order. The two left
// tiles are adjacent in memory; each right tile may be anywhere. The block becomes the sum of all products, plus its
// old values with `accumulate`. A BlockUnit must exist during the call.

#ifdef __AMX_BF16__
#include "ops/tile_block_amx.h"
#else
#include "ops/tile_block_avx512.h"
#endif
