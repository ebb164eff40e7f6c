#pragma once

#include <cstddef>
#include <cstdio>
// jpeglib.h needs the headers above.
#include <jpeglib.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace dptrain::testing {

struct JpegKind {
  J_COLOR_SPACE color = JCS_RGB;  ///< color space of the samples: JCS_GRAYSCALE, JCS_RGB or JCS_CMYK
  bool progressive = false;
};

/// A JPEG file of the best quality, without subsampling. `samples` are row by row, with the samples of a pixel
/// together.
inline std::string jpeg_file(int height, int width, const std::vector<uint8_t>& samples, const JpegKind& kind = {}) {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // the type that libjpeg uses
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = kind.color == JCS_GRAYSCALE ? 1 : kind.color == JCS_RGB ? 3 : 4;
  jpeg.in_color_space = kind.color;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
  if (kind.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  const size_t row_bytes = samples.size() / static_cast<size_t>(height);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(samples.data()) + jpeg.next_scanline * row_bytes;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return file;
}

}  // namespace dptrain::testing
