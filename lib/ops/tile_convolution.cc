#include "ops/tile_convolution.h"

#include "device/cpu_amx.h"
#include "ops/tile_weight_gradient.h"

namespace dptrain::ops {

namespace amx {
extern const ConvolutionTileKernels kConvolutionTiles;
extern const WeightGradientTileKernels kWeightGradientTiles;
}  // namespace amx

const ConvolutionTileKernels* convolution_tile_kernels() { return cpu_has_amx() ? &amx::kConvolutionTiles : nullptr; }

const WeightGradientTileKernels* weight_gradient_tile_kernels() {
  return cpu_has_amx() ? &amx::kWeightGradientTiles : nullptr;
}

}  // namespace dptrain::ops
