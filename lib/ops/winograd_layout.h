#pragma once

#include "ops/vector_lanes.h"
#include "ops/winograd_kernels.h"

// How Winograd's kernels store transformed numbers, and declarations of one instruction set's kernels. For the
// winograd_*.cc files that are compiled once for each instruction set.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {

void transform_inputs(const WinogradImages& x, const WinogradTiles& tiles, const WinogradInputs& inputs);
void transform_outputs(const WinogradImages& y, const WinogradTiles& tiles, const WinogradOutputs& outputs);
void transform_output_gradients(const WinogradImages& y, const WinogradTiles& tiles,
                                const WinogradOutputGradients& gradients);
void transform_weights(const WinogradWeights& weights, float* u);
void transform_weight_gradient(const WinogradWeightGradient& gradient);
void multiply_by_weights(const WinogradProduct& product);
void multiply_by_tiles(const WinogradWeightProduct& product);

namespace {

// A product's sums are kept in registers: 24 of 32 on AVX-512, 12 of 16 on AVX2.
constexpr int kLanes = kRegisterLanes, kRunTiles = kLanes == 16 ? 12 : 6;
constexpr int kPanel = 2;

using Vector = Row<kLanes>;

/// Distance between two of the 36 products in a block of weights.
constexpr int64_t weight_product(int64_t outputs) { return (kLanes * outputs + 1) * kLanes; }

constexpr int64_t weight_numbers(int64_t outputs) { return kWinogradProducts * weight_product(outputs); }

constexpr int64_t runs_of(int64_t tiles) { return (tiles + kRunTiles - 1) / kRunTiles; }

/// Returns the first tile of a run; `run` may be one past the last. Runs are as equal as possible, because short runs
/// don't hide latency.
constexpr int64_t run_begin(int64_t run, int64_t tiles, int64_t runs) { return run * tiles / runs; }

/// Walks over some tiles: image, place of the first output, and the offset in a block of the tile's numbers of the
/// first product. The next product's numbers are `product` further on.
class TileWalk {
 public:
  /// `in_runs`: the layout for products with weights; else the one for products with tiles.
  TileWalk(const WinogradTiles& tiles, bool in_runs)
      : tiles_(tiles), runs_(in_runs ? runs_of(tiles.count) : 1), end_(run_begin(1, tiles.count, runs_)) {
    const int64_t per_image = tiles.rows * tiles.columns;
    image = tiles.first / per_image;
    row = tiles.first % per_image / tiles.columns * kWinogradOutputs;
    column = tiles.first % tiles.columns * kWinogradOutputs;
    product = in_runs ? end_ * kLanes : winograd_row(tiles.count) * kLanes;
  }
  void next() {
    offset += kLanes;
    if (++tile_ == end_) next_run();
    column += kWinogradOutputs;
    if (column < tiles_.columns * kWinogradOutputs) return;
    column = 0;
    row += kWinogradOutputs;
    if (row < tiles_.rows * kWinogradOutputs) return;
    row = 0;
    ++image;
  }

  int64_t image, row, column;
  int64_t offset = 0, product;

 private:
  void next_run() {
    if (++run_ == runs_) return;
    end_ = run_begin(run_ + 1, tiles_.count, runs_);
    offset = tile_ * kWinogradProducts * kLanes;
    product = (end_ - tile_) * kLanes;
  }

  WinogradTiles tiles_;
  int64_t runs_, end_, tile_ = 0, run_ = 0;
};

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
