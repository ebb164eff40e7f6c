#pragma once

// What *_bf16.cc multiply blocks of tiles with, by the instructions that they are compiled for:
//
//   multiply_block<Rows, Columns>(steps, accumulate, sums, stride)
//
// A block has 32 rows of 32 sums, which are `stride` floats apart, of which `Rows` and `Columns` (1 or 2) tiles count.
// steps(step) calls step(left, right, second_right) for each 32 of the depth, in their order: the two left tiles lie
// one behind the other, the right ones anywhere. The sums are those of all steps' products, added to what is there with
// `accumulate`. A BlockUnit must live meanwhile.

#ifdef __AMX_BF16__
#include "ops/tile_block_amx.h"
#else
#include "ops/tile_block_avx512.h"
#endif
