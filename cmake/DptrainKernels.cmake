# Our own CPU kernels, lib/ops/*_kernels.cc, are compiled once for each instruction set; the machine picks at run time.
# Each copy lives in a namespace of its own, DPTRAIN_ISA_NAMESPACE, so that no inline function of one leaks into another.

# Nobody reads the flags of floating-point exceptions, or errno; as long as they count, a loop that selects between values or takes
# roots stays scalar. Linked to behind dptrain_compiler, whose -fno-fast-math would turn both on again.
add_library(dptrain_kernel_math INTERFACE)
target_compile_options(dptrain_kernel_math INTERFACE -fno-trapping-math -fno-math-errno)

file(GLOB kernel_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/ops/*_kernels.cc")
foreach(isa baseline avx2 avx512)
  set(sources ${kernel_sources})
  if(isa STREQUAL "baseline")
    # Winograd's are for images in blocks of 8 channels or more, which 4 lanes don't hold.
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

# Kernels that multiply bf16, lib/ops/*_bf16.cc, once for each unit that does so faster than f32 is multiplied: without one the
# machine takes other ways, not other copies.
file(GLOB bf16_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/ops/*_bf16.cc")
foreach(unit amx avx512_bf16)
  add_library(dptrain_kernels_${unit} OBJECT ${bf16_sources})
  target_include_directories(dptrain_kernels_${unit} PRIVATE "${CMAKE_SOURCE_DIR}/lib")
  target_link_libraries(dptrain_kernels_${unit} PRIVATE dptrain_compiler dptrain_kernel_math)
  target_compile_definitions(dptrain_kernels_${unit} PRIVATE DPTRAIN_ISA_NAMESPACE=${unit})
  # GCC 12 warns of its own header: _mm512_undefined_epi32 is meant to be so.
  target_compile_options(dptrain_kernels_${unit} PRIVATE -O3 -Wno-psabi -Wno-uninitialized -Wno-maybe-uninitialized
    -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma -mprfchw -mprefer-vector-width=512)
  target_sources(dptrain_ops PRIVATE $<TARGET_OBJECTS:dptrain_kernels_${unit}>)
endforeach()
target_compile_options(dptrain_kernels_amx PRIVATE -mamx-tile -mamx-bf16)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Says where a vector is computed float by float. Without AVX2 some operations are, as there are no instructions for them.
  foreach(isa avx2 avx512 avx512_bf16 amx)
    target_compile_options(dptrain_kernels_${isa} PRIVATE -Wvector-operation-performance)
  endforeach()
endif()
