# Warnings, sanitizers and the compiler cache, for every target of the project.
find_program(DPTRAIN_CCACHE ccache)
if(DPTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${DPTRAIN_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${DPTRAIN_CCACHE}")
endif()

# Flags for the C++ compiler; nvcc hands those that it needs to its host compiler by itself.
function(dptrain_cxx_options)
  foreach(option ${ARGN})
    target_compile_options(dptrain_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endforeach()
endfunction()

add_library(dptrain_compiler INTERFACE)
dptrain_cxx_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wsuggest-override)
# Sums keep the order and the contraction that the source gives them on every build.
dptrain_cxx_options(-ffp-contract=fast -fno-fast-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in std::string's inlined operator+ that aren't there (GCC bug 105651).
  dptrain_cxx_options(-Wno-restrict)
endif()
if(DPTRAIN_WARNINGS_AS_ERRORS)
  dptrain_cxx_options(-Werror)
  target_compile_options(dptrain_compiler INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(DPTRAIN_SANITIZE)
  target_compile_options(dptrain_compiler INTERFACE -fsanitize=${DPTRAIN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(dptrain_compiler INTERFACE -fsanitize=${DPTRAIN_SANITIZE})
endif()
