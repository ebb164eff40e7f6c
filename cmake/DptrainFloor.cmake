# dptrain_floor(<name> [FLOORS lower floors...] [VENDOR private libraries...] [EXCLUDE file patterns...])
# One static library a folder of lib/. Its sources are all *.cc files of the folder but the excluded ones, so adding an
# operator or a model touches no build file.
function(dptrain_floor name)
  cmake_parse_arguments(floor "" "" "FLOORS;VENDOR;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/${name}/*.cc")
  foreach(pattern ${floor_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  add_library(dptrain_${name} STATIC ${sources})
  target_include_directories(dptrain_${name} PUBLIC "${CMAKE_SOURCE_DIR}/lib")
  list(TRANSFORM floor_FLOORS PREPEND dptrain_)
  target_link_libraries(dptrain_${name} PUBLIC ${floor_FLOORS} fmt::fmt Threads::Threads
                        PRIVATE dptrain_compiler ${floor_VENDOR})
endfunction()
