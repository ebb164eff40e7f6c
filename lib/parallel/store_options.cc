#include "parallel/store_options.h"

namespace dptrain::parallel {

const char* store_type_name(StoreOptions::Type type) {
  switch (type) {
    case StoreOptions::Type::device: return "device";
    case StoreOptions::Type::local: return "local";
    case StoreOptions::Type::dist_sync: return "dist_sync";
    case StoreOptions::Type::dist_device_sync: return "dist_device_sync";
    case StoreOptions::Type::dist_async: return "dist_async";
  }
  return "";
}

}  // namespace dptrain::parallel
