#pragma once

#include <memory>
#include <vector>

#include "ops/convolution_plan_cuda.h"

namespace dptrain::ops::cuda {

/// Winograd's convolution F(4x4, 3x3) in f32. The tiles of the images and the weights are transformed, cuBLASLt
/// multiplies them as a batch of 36 matrices, and the products are transformed back. If no tile overhangs, this is a
/// quarter of the direct algorithm's multiplications. Every sum has one order, which depends on the shapes alone.
///
/// An example is a 3x3 layer of 64 channels over 512 images of 28 x 28 (103 MB in, 103 MB out). The direct algorithm
/// multiplies and adds 29.6 GFLOP per pass, 0.44 ms of an H200's 67 TFLOP/s, and cuDNN also reorders nhwc to nchw and
/// back. Winograd's algorithm multiplies and adds 7.4 GFLOP, 0.11 ms. It writes and reads images, transformed images
/// and products, 1.13 GB, 0.24 ms of the H200's 4.8 TB/s. From 256 channels on, the multiplications take longer than
/// the memory accesses.

/// Whether Winograd's convolution can compute a problem.
bool can_be_winograd(const ConvolutionProblem& problem);

/// Returns the plans for a problem that it can compute. The first takes all images at once, or as many as the workspace
/// limit allows. The second takes parts whose transformed images stay in an L2 cache; it is left out if it has no more
/// parts than the first, or too many.
std::vector<std::unique_ptr<ConvolutionPlan>> winograd_convolutions(const ConvolutionProblem& problem);

}  // namespace dptrain::ops::cuda
