# Target headers_alone: every header of the house compiles by itself, in the language of its users.

set(headers_dir ${CMAKE_CURRENT_BINARY_DIR}/headers_alone)
set(headers_sources "")
foreach(folder credit firehose lib memreg nic perf queues tools)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
       ${PROJECT_SOURCE_DIR}/${folder}/*.hpp)
  foreach(header ${found})
    string(MAKE_C_IDENTIFIER ${header} name)
    file(CONFIGURE OUTPUT ${headers_dir}/${name}.cpp CONTENT "#include \"@header@\"\n" @ONLY)
    list(APPEND headers_sources ${headers_dir}/${name}.cpp)
  endforeach()
endforeach()
# The C interface is for C99 and C++ clients, who include these; the rest are parts of them.
file(GLOB found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/lib/gasnet/include
     ${PROJECT_SOURCE_DIR}/lib/gasnet/include/gasnet.h
     ${PROJECT_SOURCE_DIR}/lib/gasnet/include/gasnet_tools.h
     ${PROJECT_SOURCE_DIR}/lib/gasnet/include/gasnet_coll.h
     ${PROJECT_SOURCE_DIR}/lib/gasnet/include/gasnet_vis.h
     ${PROJECT_SOURCE_DIR}/lib/gasnet/include/gasnet_coll.h
     ${PROJECT_SOURCE_DIR}/lib/gasnet/include/gasnet_penstock.h
     ${PROJECT_SOURCE_DIR}/lib/gasnet/include/gasnetex.h
     ${PROJECT_SOURCE_DIR}/lib/gasnet/include/gasnet_fwd.h
     ${PROJECT_SOURCE_DIR}/lib/gasnet/include/gasnet_mk.h)
list(APPEND found penstock.h penstock/counters.h)
foreach(header ${found})
  string(MAKE_C_IDENTIFIER ${header} name)
  foreach(language c cpp)
    file(CONFIGURE OUTPUT ${headers_dir}/${name}_c_interface.${language}
         CONTENT "#include <@header@>\n" @ONLY)
    list(APPEND headers_sources ${headers_dir}/${name}_c_interface.${language})
  endforeach()
endforeach()

add_library(headers_alone OBJECT EXCLUDE_FROM_ALL ${headers_sources})
set_target_properties(headers_alone PROPERTIES UNITY_BUILD OFF)
target_link_libraries(headers_alone PRIVATE penstock_options PkgConfig::ibverbs PkgConfig::urcu
                      PkgConfig::jemalloc fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11 PNG::PNG)
target_include_directories(headers_alone PRIVATE ${PROJECT_SOURCE_DIR}/lib/gasnet/include)
# Static functions that a header offers and a file without contents does not use are no fault.
target_compile_options(headers_alone PRIVATE -Wno-unused-function)
target_compile_definitions(headers_alone PRIVATE PENSTOCK_MODE=par GASNET_PAR=1 GASNETT_THREAD_SAFE=1)
