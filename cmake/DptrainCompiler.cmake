# Warnings, sanitizers and the compiler cache, for every target of the project.
find_program(DPTRAIN_CCACHE ccache)
if(DPTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${DPTRAIN_CCACHE}")
endif()

add_library(dptrain_compiler INTERFACE)
target_compile_options(dptrain_compiler INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  # GCC 12 sees overlaps in std::string's inlined operator+ that aren't there (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # Sums keep the order and the contraction that the source gives them on every build.
  -ffp-contract=fast -fno-fast-math)
if(DPTRAIN_WARNINGS_AS_ERRORS)
  target_compile_options(dptrain_compiler INTERFACE -Werror)
endif()
if(DPTRAIN_SANITIZE)
  target_compile_options(dptrain_compiler INTERFACE -fsanitize=${DPTRAIN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(dptrain_compiler INTERFACE -fsanitize=${DPTRAIN_SANITIZE})
endif()
