# The git commit that --version prints. It is read at configuration; "unknown" outside a checkout.
set(DPTRAIN_GIT_COMMIT "unknown")
find_package(Git QUIET)
if(Git_FOUND)
  execute_process(COMMAND "${GIT_EXECUTABLE}" rev-parse --short=12 HEAD
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE commit
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(DPTRAIN_GIT_COMMIT "${commit}")
  endif()
  # Configure again when the commit changes: HEAD itself only names the branch, but its log grows with every commit and
  # checkout. A missing file would make every build configure again.
  execute_process(COMMAND "${GIT_EXECUTABLE}" rev-parse --git-path logs/HEAD
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE head_log
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  get_filename_component(head_log "${head_log}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  if(status EQUAL 0 AND EXISTS "${head_log}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${head_log}")
  endif()
endif()

# The properties of the build, besides the source, that decide the bits of dptrain's own CPU kernels.
set(DPTRAIN_BUILT_BY "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} for ${CMAKE_SYSTEM_PROCESSOR}, ${CMAKE_BUILD_TYPE}")
string(STRIP "${CMAKE_CXX_FLAGS}" flags)
if(flags)
  string(REPLACE "\"" "'" flags "${flags}")
  string(APPEND DPTRAIN_BUILT_BY ", ${flags}")
endif()
