// Preloaded into a program, a disk that is busy: while the file that DPTRAIN_TEST_BUSY names is there, a sync takes
// four seconds.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int fsync(int descriptor) {
  const char* busy = std::getenv("DPTRAIN_TEST_BUSY");
  if (busy != nullptr && ::access(busy, F_OK) == 0) ::sleep(4);
  static const auto sync = reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, "fsync"));
  return sync(descriptor);
}
