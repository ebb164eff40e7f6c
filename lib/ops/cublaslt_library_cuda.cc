#include "ops/cublaslt_library_cuda.h"

#include <dlfcn.h>

#include <string>

#include "base/error.h"

namespace dptrain::ops::cuda {
namespace {

/// Opens the library where the program looks for libraries, which includes LD_LIBRARY_PATH. If it isn't there, opens it
/// in the folder where it was when this program was built.
void* open_library() {
  std::string why;
  for (const char* name : {DPTRAIN_CUBLASLT_NAME, DPTRAIN_CUBLASLT_FOLDER "/" DPTRAIN_CUBLASLT_NAME}) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    if (why.empty()) why = ::dlerror();
  }
  throw Error(ExitCode::device, Mistake{.where = "cuBLASLt",
                                        .expected = "expected NVIDIA's library for matrix products on GPUs",
                                        .got = why,
                                        .advice = "put its folder on LD_LIBRARY_PATH"});
}

void* found(void* library, const std::string& name) {
  if (void* function = ::dlsym(library, name.c_str())) return function;
  throw Error(ExitCode::device, Mistake{.where = "cuBLASLt",
                                        .expected = "expected a function " + name,
                                        .got = "a library without it",
                                        .advice = "put the version that dptrain was built with on LD_LIBRARY_PATH"});
}

CublasLt load() {
  void* library = open_library();
  CublasLt functions;
#define DPTRAIN_FIND(name) \
  functions.name = reinterpret_cast<decltype(functions.name)>(found(library, "cublasLt" #name));
  DPTRAIN_CUBLASLT_FUNCTIONS(DPTRAIN_FIND)
#undef DPTRAIN_FIND
  return functions;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = load();
  return functions;
}

}  // namespace dptrain::ops::cuda
