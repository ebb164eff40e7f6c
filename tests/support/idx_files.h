#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace dptrain::testing {

/// A new, empty folder that is deleted at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "dptrain-test-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "no folder " << path;
    path_ = path;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

  /// Writes a file into this folder and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file << bytes;
    EXPECT_TRUE(file.flush()) << name;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// `bytes` as one gzip member.
inline std::string gzip(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// A magic number and dimensions, big-endian.
inline std::string idx_header(const std::vector<uint32_t>& words) {
  std::string bytes;
  for (const uint32_t word : words)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift & 0xff);
  return bytes;
}

/// An IDX file of images: pixel p of all pixels is p * 7 % 256.
inline std::string idx_images(uint32_t count, uint32_t height, uint32_t width) {
  std::string bytes = idx_header({0x803, count, height, width});
  for (uint32_t pixel = 0; pixel < count * height * width; ++pixel) bytes += static_cast<char>(pixel * 7 % 256);
  return bytes;
}

/// An IDX file of labels: label i is i % 10.
inline std::string idx_labels(uint32_t count) {
  std::string bytes = idx_header({0x801, count});
  for (uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

/// The four files of a data set in MNIST's format.
inline void write_idx_dataset(const ScratchFolder& folder, uint32_t train, uint32_t test, uint32_t side = 4) {
  folder.write("train-images-idx3-ubyte", idx_images(train, side, side));
  folder.write("train-labels-idx1-ubyte", idx_labels(train));
  folder.write("t10k-images-idx3-ubyte", idx_images(test, side, side));
  folder.write("t10k-labels-idx1-ubyte", idx_labels(test));
}

}  // namespace dptrain::testing
