# dptrain's own CPU kernels, lib/ops/*_kernels.cc, are compiled once for each instruction set; the program picks one at run
# time. Each copy is in a namespace of its own, DPTRAIN_ISA_NAMESPACE, so that no inline function of one copy is used by
# another.

# No code reads errno or the flags of floating-point exceptions. If the compiler had to keep them right, loops that select
# between values or take square roots would stay scalar. This target is linked after dptrain_compiler, whose -fno-fast-math
# would turn both on again.
add_library(dptrain_kernel_math INTERFACE)
target_compile_options(dptrain_kernel_math INTERFACE -fno-trapping-math -fno-math-errno)

file(GLOB kernel_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/ops/*_kernels.cc")
foreach(isa baseline avx2 avx512)
  set(sources ${kernel_sources})
  if(isa STREQUAL "baseline")
    # Winograd kernels work on blocks of 8 channels or more, which 4 lanes don't hold.
    list(FILTER sources EXCLUDE REGEX "/winograd_")
  endif()
  add_library(dptrain_kernels_${isa} OBJECT ${sources})
  target_include_directories(dptrain_kernels_${isa} PRIVATE "${CMAKE_SOURCE_DIR}/lib")
  target_link_libraries(dptrain_kernels_${isa} PRIVATE dptrain_compiler dptrain_kernel_math)
  target_compile_definitions(dptrain_kernels_${isa} PRIVATE DPTRAIN_ISA_NAMESPACE=${isa})
  target_compile_options(dptrain_kernels_${isa} PRIVATE -O3)
  target_sources(dptrain_ops PRIVATE $<TARGET_OBJECTS:dptrain_kernels_${isa}>)
endforeach()
target_compile_options(dptrain_kernels_avx2 PRIVATE -mavx2 -mfma)
target_compile_options(dptrain_kernels_avx512 PRIVATE
  -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)

# Kernels that multiply bf16, lib/ops/*_bf16.cc, are compiled once for each unit that multiplies bf16 faster than f32. A machine
# without such a unit uses other algorithms, not other copies.
file(GLOB bf16_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/ops/*_bf16.cc")
foreach(unit amx avx512_bf16)
  add_library(dptrain_kernels_${unit} OBJECT ${bf16_sources})
  target_include_directories(dptrain_kernels_${unit} PRIVATE "${CMAKE_SOURCE_DIR}/lib")
  target_link_libraries(dptrain_kernels_${unit} PRIVATE dptrain_compiler dptrain_kernel_math)
  target_compile_definitions(dptrain_kernels_${unit} PRIVATE DPTRAIN_ISA_NAMESPACE=${unit})
  # GCC 12 warns about its own header: _mm512_undefined_epi32 is uninitialized on purpose.
  target_compile_options(dptrain_kernels_${unit} PRIVATE -O3 -Wno-psabi -Wno-uninitialized -Wno-maybe-uninitialized
    -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma -mprfchw -mprefer-vector-width=512)
  target_sources(dptrain_ops PRIVATE $<TARGET_OBJECTS:dptrain_kernels_${unit}>)
endforeach()
target_compile_options(dptrain_kernels_amx PRIVATE -mamx-tile -mamx-bf16)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Warns if a vector is computed float by float. Without AVX2 some operations are, because there are no instructions for them.
  foreach(isa avx2 avx512 avx512_bf16 amx)
    target_compile_options(dptrain_kernels_${isa} PRIVATE -Wvector-operation-performance)
  endforeach()
endif()
