# Warnings, sanitizers and the compiler cache, for every target of the project.
find_program(DPTRAIN_CCACHE ccache)
if(DPTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths in the tree are hashed relative to it, so that every build folder finds the cached objects, also those of generated
  # sources.
  set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${DPTRAIN_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${launcher}")
endif()

# dptrain_unite(<target>): compiles several of the target's sources as one, so that headers that they share are read only once.
# Therefore names in unnamed namespaces must be unique within a floor. Sources of an optional part are compiled by themselves:
# the units of the other sources are then equal with and without that part, and the compiler cache has them only once. Sources
# with options of their own are also compiled by themselves.
function(dptrain_unite target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "/[^/]*(cuda|nccl|mpi|_absent)[^/]*$")
  set_property(SOURCE ${sources} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${DPTRAIN_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  if(DPTRAIN_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # A class of one source may have members of its unnamed namespace. GCC would warn, because it takes an included source for a
    # header.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Adds flags for the C++ compiler only; nvcc passes the flags that it needs to its host compiler by itself.
function(dptrain_cxx_options)
  foreach(option ${ARGN})
    target_compile_options(dptrain_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endforeach()
endfunction()

add_library(dptrain_compiler INTERFACE)
dptrain_cxx_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wsuggest-override)
# On every build, sums keep the order and the contraction that the source gives them.
dptrain_cxx_options(-ffp-contract=fast -fno-fast-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns about overlaps in std::string's inlined operator+ that don't exist (GCC bug 105651).
  dptrain_cxx_options(-Wno-restrict)
endif()
if(DPTRAIN_WARNINGS_AS_ERRORS)
  dptrain_cxx_options(-Werror)
  target_compile_options(dptrain_compiler INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(DPTRAIN_SANITIZE)
  # Code of the run-time checks confuses GCC's analysis, which then warns within the standard library's <regex>.
  target_compile_options(dptrain_compiler INTERFACE
    -fsanitize=${DPTRAIN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  target_link_options(dptrain_compiler INTERFACE -fsanitize=${DPTRAIN_SANITIZE})
endif()
