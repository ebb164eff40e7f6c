#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/shape.h"

namespace dptrain {

/// How a tensor's elements are arranged in memory.
///   plain        row-major; [N, C, H, W] images are nchw, weights oihw
///   nhwc         channels innermost
///   nchw8c/16c   [N, ceil(C/b), H, W, b]: blocks of b channels innermost, the lanes past C kept zero
///   oihw8i8o/16i16o  convolution weights [ceil(O/b), ceil(I/b), H, W, b inputs, b outputs], padding kept zero
enum class Layout : uint8_t { plain, nhwc, nchw8c, nchw16c, oihw8i8o, oihw16i16o };

std::string_view layout_name(Layout layout);

/// Channels in a block: 8 or 16; 1 if the layout has no blocks.
int64_t layout_block(Layout layout);

/// Elements that a tensor of this shape takes in memory, padding included.
int64_t storage_elements(const Shape& shape, Layout layout);

}  // namespace dptrain
