#include "base/library_version.h"

#include <fmt/format.h>

#include "base/error.h"

namespace dptrain {

std::string LibraryVersion::text() const {
  return loaded_major == 0 ? name + " (not found)" : fmt::format("{} {}.{}", name, loaded_major, loaded_minor);
}

void LibraryVersion::require_fit() const {
  if (loaded_major == built_major) return;
  throw Error(ExitCode::device,
              Mistake{.where = name,
                      .expected = fmt::format("expected version {}.{}, which this program was built with", built_major,
                                              built_minor),
                      .got = fmt::format("version {}.{} at run time", loaded_major, loaded_minor),
                      .advice = fmt::format("put a version {} before it on LD_LIBRARY_PATH, or build dptrain again",
                                            built_major)});
}

}  // namespace dptrain
