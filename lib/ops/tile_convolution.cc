#include "ops/tile_convolution.h"

#include "device/cpu_amx.h"

namespace dptrain::ops {

namespace amx {
extern const ConvolutionTileKernels kConvolutionTiles;
}

const ConvolutionTileKernels* convolution_tile_kernels() { return cpu_has_amx() ? &amx::kConvolutionTiles : nullptr; }

}  // namespace dptrain::ops
