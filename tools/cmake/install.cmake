# What is installed: one static library a thread mode for the C++ interface and one for GASNet programs, the
# public headers, the programs, and how others find them: find_package(penstock) with targets
# penstock::seq, penstock::gasnet_seq and so on, or pkg-config penstock-seq, gasnet-penstock-seq.
#
# The house is many small libraries; what is installed is their objects in one archive, so that nobody
# outside depends on how the house is divided.
include(CMakePackageConfigHelpers)

# From where a .pc file lies to the prefix, so that an installed tree may be moved.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(packages_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)

# penstock_archive(NAME EXPORT_NAME FOLDERS target... LINKS target... DEFINITIONS definition...)
function(penstock_archive name export_name)
  cmake_parse_arguments(arg "" "" "FOLDERS;LINKS;DEFINITIONS" ${ARGN})
  set(objects "")
  foreach(folder ${arg_FOLDERS})
    list(APPEND objects $<TARGET_OBJECTS:penstock_${folder}>)
  endforeach()
  set(target installed_${export_name})
  add_library(${target} STATIC ${objects})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${export_name}
                                             LINKER_LANGUAGE CXX)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_definitions(${target} INTERFACE ${arg_DEFINITIONS})
  target_link_libraries(${target} INTERFACE ${arg_LINKS})
  install(TARGETS ${target} EXPORT penstock ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

set(others PkgConfig::ibverbs PkgConfig::urcu PkgConfig::jemalloc Threads::Threads ${CMAKE_DL_LIBS})
# pkg-config's users may link with a C compiler.
set(other_flags "-libverbs -lurcu-memb -lurcu-cds -ljemalloc -pthread -ldl -lstdc++ -lm")
foreach(mode ${PENSTOCK_MODES})
  string(TOUPPER ${mode} MODE)
  penstock_archive(penstock-${mode} ${mode}
    FOLDERS conduit_${mode} queues_${mode} credit firehose interpose memreg nic job base
    LINKS ${others} DEFINITIONS PENSTOCK_MODE=${mode})
  set(pc_name penstock-${mode})
  set(pc_about "Penstock's C++20 interface, thread mode ${MODE}")
  set(pc_cflags "-DPENSTOCK_MODE=${mode}")
  set(pc_libs "-lpenstock-${mode} ${other_flags}")
  configure_file(tools/cmake/penstock.pc.in ${pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

  if(NOT TARGET penstock_gasnet_${mode})
    continue()
  endif()
  penstock_archive(gasnet-penstock-${mode} gasnet_${mode}
    FOLDERS gasnet_${mode} gasnet_tools
    LINKS installed_${mode} DEFINITIONS GASNET_${MODE}=1)
  set(pc_name gasnet-penstock-${mode})
  set(pc_about "GASNet-1 over Penstock, thread mode ${MODE}")
  set(pc_cflags "-DGASNET_${MODE}=1")
  set(pc_libs "-lgasnet-penstock-${mode} -lpenstock-${mode} ${other_flags}")
  configure_file(tools/cmake/penstock.pc.in ${pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

install(DIRECTORY lib/include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN *.hpp)
install(DIRECTORY lib/gasnet/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(EXPORT penstock NAMESPACE penstock:: DESTINATION ${packages_dir} FILE penstock-targets.cmake)
configure_package_config_file(tools/cmake/penstock-config.cmake.in penstock-config.cmake
                              INSTALL_DESTINATION ${packages_dir})
write_basic_package_version_file(penstock-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/penstock-config.cmake
              ${PROJECT_BINARY_DIR}/penstock-config-version.cmake DESTINATION ${packages_dir})
