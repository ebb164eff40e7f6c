#include "ops/winograd_kernels.h"

#include "ops/winograd_layout.h"

// Compiled once for each instruction set, like winograd_*_kernels.cc; see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {

extern const WinogradKernels kWinograd;
const WinogradKernels kWinograd = {.lanes = kLanes,
                                   .panel = kPanel,
                                   .run = kRunTiles,
                                   .weight_numbers = weight_numbers,
                                   .inputs = transform_inputs,
                                   .weights = transform_weights,
                                   .multiply_by_weights = multiply_by_weights,
                                   .outputs = transform_outputs,
                                   .output_gradients = transform_output_gradients,
                                   .multiply_by_tiles = multiply_by_tiles,
                                   .weight_gradient = transform_weight_gradient};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
