# Compiler settings and the function that declares a folder's target with its allowed edges.

set(PENSTOCK_SANITIZE "" CACHE STRING "address,undefined or thread: build everything with that sanitizer")
# The thread modes: a library each. Under a sanitizer the one between the others shows nothing new.
set(PENSTOCK_MODES seq parsync par)
if(PENSTOCK_SANITIZE)
  set(PENSTOCK_MODES seq par)
endif()
# With CMAKE_UNITY_BUILD several files of a folder are compiled as one, in half the time; of this size
# several still keep the cores busy. Headers are also compiled alone (headers.cmake).
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6)
# Other compilers warn of other things: a user's build does not fail by them. The presets turn it on.
option(PENSTOCK_WERROR "Treat warnings as errors" OFF)

add_library(penstock_options INTERFACE)
target_include_directories(penstock_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/lib/include>)
target_compile_options(penstock_options INTERFACE
  -Wall -Wextra -Wpedantic $<$<COMPILE_LANGUAGE:CXX>:-Wshadow>
  $<$<BOOL:${PENSTOCK_WERROR}>:-Werror> -fno-plt)
if(PENSTOCK_SANITIZE)
  # -g1: lines, for reports.
  target_compile_options(penstock_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(penstock_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
endif()
target_link_libraries(penstock_options INTERFACE Threads::Threads)
set(PENSTOCK_MAX_MEDIUM "" CACHE STRING "Largest Medium payload that travels with its header, a multiple of 64 (default 4032)")
if(PENSTOCK_MAX_MEDIUM)  # for all rooms: see lib/base/limits.hpp
  target_compile_definitions(penstock_options INTERFACE PENSTOCK_MAX_MEDIUM=${PENSTOCK_MAX_MEDIUM})
endif()
# A debug build checks the invariants; GCC's -Wtsan is about fences, which the code labels itself.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(penstock_options INTERFACE -Wno-tsan)
endif()

# penstock_folder(NAME SOURCES file... LINKS target...)
#   declares static library penstock_NAME, which may include only what it links.
function(penstock_folder name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(penstock_${name} STATIC ${arg_SOURCES})
  target_link_libraries(penstock_${name} PUBLIC penstock_options ${arg_LINKS})
endfunction()
