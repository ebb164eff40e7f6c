#include "ops/onednn.h"

#include <utility>

#include "base/check.h"

namespace dptrain::ops {
namespace {

dnnl::memory::dims dims_of(const Shape& shape) { return {shape.dimensions().begin(), shape.dimensions().end()}; }

dnnl::memory::format_tag tag_of(const Shape& shape, Layout layout) {
  using tag = dnnl::memory::format_tag;
  switch (layout) {
    case Layout::nhwc: return tag::nhwc;
    case Layout::nchw8c: return tag::nChw8c;
    case Layout::nchw16c: return tag::nChw16c;
    case Layout::oihw8i8o: return tag::OIhw8i8o;
    case Layout::oihw16i16o: return tag::OIhw16i16o;
    case Layout::plain: break;
  }
  switch (shape.rank()) {
    case 1: return tag::a;
    case 2: return tag::ab;
    case 3: return tag::abc;
    case 4: return tag::abcd;
    default: break;
  }
  report_bug(__FILE__, __LINE__, "rank <= 4", "oneDNN descriptor of " + shape.text());
}

}  // namespace

OneDnn::OneDnn(Device& device) : device_(device), engine_(dnnl::engine::kind::cpu, 0) {}

Tensor OneDnn::opaque(const dnnl::memory::desc& desc, MemoryPurpose purpose) const {
  return Tensor::empty(device_, {static_cast<int64_t>(desc.get_size())}, {.dtype = DType::u8, .purpose = purpose});
}

void OneDnn::execute(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                     std::unordered_map<int, dnnl::memory> arguments) {
  Tensor scratch;
  if (scratchpad.get_size() > 0) {
    scratch = opaque(scratchpad);
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad, scratch));
  }
  if (!device_.computes()) return;
  // Each call has its own stream, because several threads may execute parts of an operator at once.
  dnnl::stream stream(engine_);
  primitive.execute(stream, arguments);
  stream.wait();
}

void OneDnn::reorder(const dnnl::memory& from, const dnnl::memory& to) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc desc(from, to, attributes);
  execute(dnnl::reorder(desc), desc.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

dnnl::memory::desc onednn_desc(const Shape& shape, Layout layout) {
  return {dims_of(shape), dnnl::memory::data_type::f32, tag_of(shape, layout)};
}

dnnl::memory::desc onednn_any(const Shape& shape) {
  return {dims_of(shape), dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

}  // namespace dptrain::ops
