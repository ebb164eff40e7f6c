#include "ops/tile_product.h"

namespace dptrain::ops {

namespace amx {
extern const TileKernels kTiles;
}
namespace avx512_bf16 {
extern const TileKernels kTiles;
}

const TileKernels* tile_kernels(Bf16Unit unit) {
  switch (unit) {
    case Bf16Unit::amx: return &amx::kTiles;
    case Bf16Unit::avx512: return &avx512_bf16::kTiles;
    case Bf16Unit::none: break;
  }
  return nullptr;
}

}  // namespace dptrain::ops
