#pragma once

#include <memory>
#include <vector>

#include "ops/convolution_plan_cuda.h"

namespace dptrain::ops::cuda {

/// Winograd's convolution F(4x4, 3x3) of f32: the tiles of the images and the weights are transformed, cuBLASLt
/// multiplies them as a batch of 36 matrices, and the products are transformed back. A quarter of the direct
/// algorithm's multiplications, where no tile hangs over; every sum has one order, which depends on the shapes alone.
///
/// Of a 3x3 layer of 64 channels over 512 images of 28 x 28 (103 MB in, 103 out) the direct algorithm multiplies and
/// adds 29.6 GFLOP a pass, 0.44 ms of an H200's 67 TFLOP/s, and cuDNN reorders nhwc to nchw and back beside that. Here
/// it is 7.4 GFLOP, 0.11 ms, while images, transformed images and products are written and read, 1.13 GB, 0.24 ms of
/// its 4.8 TB/s. From 256 channels on, the multiplications weigh more than the bytes.

/// Whether a problem can be computed so.
bool can_be_winograd(const ConvolutionProblem& problem);

/// The plans for a problem that can: all images at once as far as a workspace may be so large; and in parts whose
/// transformed images stay in an L2 cache, where these aren't too many.
std::vector<std::unique_ptr<ConvolutionPlan>> winograd_convolutions(const ConvolutionProblem& problem);

}  // namespace dptrain::ops::cuda
