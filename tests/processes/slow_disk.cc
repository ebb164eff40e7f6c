// Makes a disk slow for the program that this library is preloaded into. While the file that DPTRAIN_TEST_BUSY names
// exists, each sync, and each read at an offset of a file, takes longer by the seconds in that file: "4 0.3".
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

struct Delays {
  double sync_s = 0;
  double read_s = 0;
};

Delays delays() {
  Delays found;
  const char* path = std::getenv("DPTRAIN_TEST_BUSY");
  std::FILE* busy = path != nullptr ? std::fopen(path, "r") : nullptr;
  if (busy == nullptr) return {};
  const bool is_whole = std::fscanf(busy, "%lf %lf", &found.sync_s, &found.read_s) == 2;
  std::fclose(busy);
  return is_whole ? found : Delays{};
}

void wait(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// The C library's own function.
template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int fsync(int descriptor) {
  wait(delays().sync_s);
  static const auto sync = next<int (*)(int)>("fsync");
  return sync(descriptor);
}

extern "C" ssize_t pread(int descriptor, void* bytes, size_t count, off_t offset) {
  wait(delays().read_s);
  static const auto read = next<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  return read(descriptor, bytes, count, offset);
}
