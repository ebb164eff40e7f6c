#include "comm/mpi_messages.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdarg>
#include <string_view>

namespace dptrain {
namespace {

// Variables of Open MPI's library: the functions that it calls to show a message, one with a list of arguments and one
// with variable arguments.
using ShowList = int (*)(const char* file, const char* topic, bool wants_header, va_list arguments);
using Show = int (*)(const char* file, const char* topic, bool wants_header, ...);

ShowList* show_list = nullptr;
Show* show = nullptr;
/// Open MPI's function that prints a message in this process.
ShowList print_list = nullptr;
std::atomic<int> connections_lost = 0;

int take_list(const char* file, const char* topic, bool wants_header, va_list arguments) {
  if (std::string_view(file) != "help-mpi-btl-tcp.txt") return print_list(file, topic, wants_header, arguments);
  ++connections_lost;
  return 0;
}

int take_message(const char* file, const char* topic, bool wants_header, ...) {
  va_list arguments;
  va_start(arguments, wants_header);
  const int result = take_list(file, topic, wants_header, arguments);
  va_end(arguments);
  return result;
}

}  // namespace

MpiMessages::MpiMessages() {
  show_list = static_cast<ShowList*>(::dlsym(RTLD_DEFAULT, "opal_show_vhelp"));
  show = static_cast<Show*>(::dlsym(RTLD_DEFAULT, "opal_show_help"));
  if (show_list != nullptr) print_list = *show_list;
}

void MpiMessages::take() const {
  if (show_list == nullptr || show == nullptr || print_list == nullptr) return;
  *show_list = take_list;
  *show = take_message;
}

int mpi_connections_lost() { return connections_lost; }

}  // namespace dptrain
