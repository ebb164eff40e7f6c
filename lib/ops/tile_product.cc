#include "ops/tile_product.h"

#include "device/cpu_amx.h"

namespace dptrain::ops {

namespace amx {
extern const TileKernels kTiles;
}

const TileKernels* tile_kernels() { return cpu_has_amx() ? &amx::kTiles : nullptr; }

}  // namespace dptrain::ops
