#include "tensor/layout.h"

#include "base/check.h"

namespace dptrain {

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::plain: return "plain";
    case Layout::nhwc: return "nhwc";
    case Layout::nchw8c: return "nchw8c";
    case Layout::nchw16c: return "nchw16c";
    case Layout::oihw8i8o: return "oihw8i8o";
    case Layout::oihw16i16o: return "oihw16i16o";
  }
  return "";
}

int64_t layout_block(Layout layout) {
  switch (layout) {
    case Layout::plain:
    case Layout::nhwc: return 1;
    case Layout::nchw8c:
    case Layout::oihw8i8o: return 8;
    case Layout::nchw16c:
    case Layout::oihw16i16o: return 16;
  }
  return 1;
}

int64_t storage_elements(const Shape& shape, Layout layout) {
  if (layout == Layout::plain || layout == Layout::nhwc) return shape.elements();
  DPTRAIN_CHECK(shape.rank() == 4, "layout {} of a tensor {}", layout_name(layout), shape.text());
  const int64_t block = layout_block(layout);
  const auto padded = [block](int64_t size) { return (size + block - 1) / block * block; };
  const bool weights = layout == Layout::oihw8i8o || layout == Layout::oihw16i16o;
  const int64_t first = weights ? padded(shape[0]) : shape[0];
  return first * padded(shape[1]) * shape[2] * shape[3];
}

}  // namespace dptrain
