# dptrain_floor(<name> [FLOORS lower floors...] [VENDOR private libraries...] [EXCLUDE file patterns...])
# Makes one static library from a folder of lib/. Its sources are all *.cc and *.cu files of the folder except the excluded
# ones, so a new operator or model needs no change of a build file.
#
# An optional part (CUDA, NCCL, MPI) is recognized by the name of a file. For example, a file with "cuda" in its name is
# compiled only with CUDA; one that also ends in "_absent.cc" only without CUDA. CUDA_VENDOR and MPI_VENDOR are the libraries
# that files of CUDA and MPI link to.
function(dptrain_floor name)
  cmake_parse_arguments(floor "" "" "FLOORS;VENDOR;CUDA_VENDOR;MPI_VENDOR;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/${name}/*.cc" "${CMAKE_SOURCE_DIR}/lib/${name}/*.cu")
  foreach(pattern ${floor_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  foreach(part CUDA NCCL MPI)
    string(TOLOWER ${part} word)
    set(absent ${sources})
    list(FILTER absent INCLUDE REGEX "/[^/]*${word}[^/]*_absent\\.cc$")
    if(DPTRAIN_WITH_${part})
      set(dropped ${absent})
    else()
      set(dropped ${sources})
      list(FILTER dropped INCLUDE REGEX "/[^/]*${word}[^/]*$")
      if(absent)
        list(REMOVE_ITEM dropped ${absent})
      endif()
    endif()
    if(dropped)
      list(REMOVE_ITEM sources ${dropped})
    endif()
  endforeach()
  add_library(dptrain_${name} STATIC ${sources})
  # These two floors aren't united: operators are short, and several with the same name are next to each other, one for each
  # kind of device.
  if(NOT name STREQUAL "ops" AND NOT name STREQUAL "device")
    dptrain_unite(dptrain_${name})
  endif()
  target_include_directories(dptrain_${name} PUBLIC "${CMAKE_SOURCE_DIR}/lib")
  list(TRANSFORM floor_FLOORS PREPEND dptrain_)
  target_link_libraries(dptrain_${name} PUBLIC ${floor_FLOORS} fmt::fmt Threads::Threads
                        PRIVATE dptrain_compiler ${floor_VENDOR})
  if(DPTRAIN_WITH_CUDA)
    target_link_libraries(dptrain_${name} PRIVATE ${floor_CUDA_VENDOR})
  endif()
  target_link_libraries(dptrain_${name} PRIVATE ${floor_MPI_VENDOR})
  if(DPTRAIN_WITH_CUDA AND DPTRAIN_CUDA STREQUAL "SIMULATED")
    list(FILTER sources INCLUDE REGEX "\\.cu$")
    set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++;-fno-strict-aliasing;-Wno-unknown-pragmas")
  endif()
endfunction()
