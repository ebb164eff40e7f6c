# Our own CPU kernels, lib/ops/*_kernels.cc, are compiled once for each instruction set; the machine picks at run time.
# Each copy lives in a namespace of its own, DPTRAIN_ISA_NAMESPACE, so that no inline function of one leaks into another.

# Nobody reads the flags of floating-point exceptions, or errno; as long as they count, a loop that selects between values or takes
# roots stays scalar. Linked to behind dptrain_compiler, whose -fno-fast-math would turn both on again.
add_library(dptrain_kernel_math INTERFACE)
target_compile_options(dptrain_kernel_math INTERFACE -fno-trapping-math -fno-math-errno)

file(GLOB kernel_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/ops/*_kernels.cc")
foreach(isa baseline avx2 avx512)
  add_library(dptrain_kernels_${isa} OBJECT ${kernel_sources})
  target_include_directories(dptrain_kernels_${isa} PRIVATE "${CMAKE_SOURCE_DIR}/lib")
  target_link_libraries(dptrain_kernels_${isa} PRIVATE dptrain_compiler dptrain_kernel_math)
  target_compile_definitions(dptrain_kernels_${isa} PRIVATE DPTRAIN_ISA_NAMESPACE=${isa})
  # Vectors wider than a register are passed between functions of one file only, so that the ABI doesn't matter.
  target_compile_options(dptrain_kernels_${isa} PRIVATE -O3 -Wno-psabi)
  target_sources(dptrain_ops PRIVATE $<TARGET_OBJECTS:dptrain_kernels_${isa}>)
endforeach()
target_compile_options(dptrain_kernels_avx2 PRIVATE -mavx2 -mfma)
target_compile_options(dptrain_kernels_avx512 PRIVATE
  -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)

# Kernels for AMX alone, lib/ops/*_amx.cc: without it the machine takes other ways, not other copies.
file(GLOB amx_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/ops/*_amx.cc")
add_library(dptrain_kernels_amx OBJECT ${amx_sources})
target_include_directories(dptrain_kernels_amx PRIVATE "${CMAKE_SOURCE_DIR}/lib")
target_link_libraries(dptrain_kernels_amx PRIVATE dptrain_compiler dptrain_kernel_math)
target_compile_definitions(dptrain_kernels_amx PRIVATE DPTRAIN_ISA_NAMESPACE=amx)
# GCC 12 warns of its own header: _mm512_undefined_epi32 is meant to be so.
target_compile_options(dptrain_kernels_amx PRIVATE -O3 -Wno-psabi -Wno-uninitialized -Wno-maybe-uninitialized
  -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma -mamx-tile -mamx-bf16 -mprfchw -mprefer-vector-width=512)
target_sources(dptrain_ops PRIVATE $<TARGET_OBJECTS:dptrain_kernels_amx>)
