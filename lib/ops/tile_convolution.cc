#include "ops/tile_convolution.h"

#include "device/cpu_bf16.h"
#include "ops/tile_weight_gradient.h"

namespace dptrain::ops {

namespace amx {
extern const ConvolutionTileKernels kConvolutionTiles;
extern const WeightGradientTileKernels kWeightGradientTiles;
}  // namespace amx
namespace avx512_bf16 {
extern const ConvolutionTileKernels kConvolutionTiles;
extern const WeightGradientTileKernels kWeightGradientTiles;
}  // namespace avx512_bf16

const ConvolutionTileKernels* convolution_tile_kernels() {
  switch (cpu_bf16_unit()) {
    case Bf16Unit::amx: return &amx::kConvolutionTiles;
    case Bf16Unit::avx512: return &avx512_bf16::kConvolutionTiles;
    case Bf16Unit::none: break;
  }
  return nullptr;
}

const WeightGradientTileKernels* weight_gradient_tile_kernels() {
  switch (cpu_bf16_unit()) {
    case Bf16Unit::amx: return &amx::kWeightGradientTiles;
    case Bf16Unit::avx512: return &avx512_bf16::kWeightGradientTiles;
    case Bf16Unit::none: break;
  }
  return nullptr;
}

}  // namespace dptrain::ops
