# CMake's toolchain for 64-bit ARM with Debian's cross compiler; test/cross/run makes the folder of libraries and says
# where it is. Programs are run by qemu-user: under Debian's package of it anywhere, with no kernel of that kind.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(PENSTOCK_SYSROOT "" CACHE PATH "Debian's arm64 libraries and headers, unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PENSTOCK_SYSROOT)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# The C and C++ libraries are the cross compiler's own; the others are found in the folder.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-idirafter ${PENSTOCK_SYSROOT}/usr/include -idirafter ${PENSTOCK_SYSROOT}/usr/include/aarch64-linux-gnu")
endforeach()
foreach(kind EXE SHARED)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT
      "-L${PENSTOCK_SYSROOT}/usr/lib/aarch64-linux-gnu -Wl,-rpath-link,${PENSTOCK_SYSROOT}/usr/lib/aarch64-linux-gnu:${PENSTOCK_SYSROOT}/lib/aarch64-linux-gnu")
endforeach()
set(CMAKE_FIND_ROOT_PATH ${PENSTOCK_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${PENSTOCK_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${PENSTOCK_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${PENSTOCK_SYSROOT}/usr/share/pkgconfig)
