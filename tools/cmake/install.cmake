# What is installed: for each thread mode a shared library libpenstock-MODE with the C++ interface, penstock.h
# and gasnet.h, and two static archives, penstock-MODE and gasnet-penstock-MODE; the registered heap; the
# public headers; the programs; and how others find all that: find_package(penstock) with targets
# penstock::seq, penstock::c_seq, penstock::gasnet_seq and so on, pkg-config penstock-seq, gasnet-penstock-seq, and for the
# build systems of GASNet's clients include/penstock-conduit/penstock-seq.mak.
#
# PENSTOCK_CONDUIT_NAMES="ibv;smp" installs the same under the names of GASNet's own conduits, for clients that choose
# among these: include/ibv-conduit/ibv-seq.mak, pkg-config gasnet-ibv-seq, libgasnet-ibv-seq, gasnetrun_ibv. A client
# compiled so takes this conduit for that one (GASNET_CONDUIT_IBV).
#
# The project is many small libraries; their objects are installed in one, so that no client depends on how
# the project is divided. -lgasnet-penstock-MODE is the shared library under its other name:
# a process has one engine, whichever interface it uses.
#
# BUILD_SHARED_LIBS=ON leaves the archives out, OFF the shared libraries; without it both are made.
include(CMakePackageConfigHelpers)

# From where a .pc file lies to the prefix, so that an installed tree may be moved.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH mak_to_prefix ${CMAKE_INSTALL_FULL_INCLUDEDIR}/penstock-conduit ${CMAKE_INSTALL_PREFIX})
set(packages_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
set(with_shared ON)
set(with_static ON)
if(DEFINED BUILD_SHARED_LIBS)
  set(with_shared ${BUILD_SHARED_LIBS})
  if(BUILD_SHARED_LIBS)
    set(with_static OFF)
  endif()
endif()
set(abi_version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # of the soname: tools/CHANGELOG.md says when it changes

# Objects of the house's libraries: penstock_objects(VARIABLE folder...)
function(penstock_objects variable)
  set(objects "")
  foreach(folder ${ARGN})
    list(APPEND objects $<TARGET_OBJECTS:penstock_${folder}>)
  endforeach()
  set(${variable} "${objects}" PARENT_SCOPE)
endfunction()

# penstock_install(NAME EXPORT_NAME SHARED|STATIC OBJECTS object... LINKS library... DEFINITIONS definition...)
function(penstock_install name export_name kind)
  cmake_parse_arguments(arg "" "" "OBJECTS;LINKS;DEFINITIONS" ${ARGN})
  set(target installed_${export_name})
  add_library(${target} ${kind} ${arg_OBJECTS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${export_name}
                                             LINKER_LANGUAGE CXX)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_definitions(${target} INTERFACE ${arg_DEFINITIONS})
  if(kind STREQUAL SHARED)
    # What it needs is its own affair: who links it names nothing else.
    target_link_libraries(${target} PRIVATE ${arg_LINKS})
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${abi_version})
    # Its own calls stay within it. It is not unmapped: it may have patched libc (firehose/interpose.cpp).
    target_link_options(${target} PRIVATE -Wl,-Bsymbolic-functions -Wl,-z,nodelete -Wl,-z,defs -Wl,-O1
                                          -Wl,--gc-sections)
  else()
    target_link_libraries(${target} INTERFACE ${arg_LINKS})
  endif()
  install(TARGETS ${target} EXPORT penstock
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries NAMELINK_COMPONENT development)
endfunction()

function(penstock_version_script target map_in map)
  configure_file(${map_in} ${map} @ONLY)
  target_link_options(${target} PRIVATE -Wl,--version-script=${PROJECT_BINARY_DIR}/${map})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${PROJECT_BINARY_DIR}/${map})
endfunction()

# penstock_pc(NAME ABOUT CFLAGS LIBS)
function(penstock_pc pc_name pc_about pc_cflags pc_libs pc_private pc_requires)
  configure_file(tools/cmake/penstock.pc.in ${pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT development)
endfunction()

# How the build systems of GASNet's clients find a conduit, in the mode of the caller: its .mak and .pc file, and a header
# in a folder of its name.
function(penstock_conduit_files conduit component more_defines)
  set(conduit_defines "-D_GNU_SOURCE=1 -DGASNET_${MODE}=1${more_defines}")
  set(conduit_libs "-lgasnet-${conduit}-${mode} -lpenstock-${mode}${pc_public}")
  configure_file(tools/cmake/gasnet/conduit.mak.in ${conduit}-${mode}.mak @ONLY)
  configure_file(tools/cmake/gasnet/conduit.pc.in gasnet-${conduit}-${mode}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${conduit}-${mode}.mak tools/cmake/gasnet/gasnet_core.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${conduit}-conduit COMPONENT ${component})
  install(FILES ${PROJECT_BINARY_DIR}/gasnet-${conduit}-${mode}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT ${component})
endfunction()

# The libraries and the launcher under the name of another conduit.
function(penstock_link old new where)
  file(CREATE_LINK ${old} ${PROJECT_BINARY_DIR}/${new} SYMBOLIC)
  install(FILES ${PROJECT_BINARY_DIR}/${new} DESTINATION ${where} COMPONENT conduit_names)
endfunction()
function(penstock_conduit_links name)
  if(with_shared)
    set(suffix ${CMAKE_SHARED_LIBRARY_SUFFIX})
    penstock_link(libpenstock-${mode}${suffix} libgasnet-${name}-${mode}${suffix} ${CMAKE_INSTALL_LIBDIR})
  endif()
  if(with_static)
    penstock_link(libgasnet-penstock-${mode}.a libgasnet-${name}-${mode}.a ${CMAKE_INSTALL_LIBDIR})
  endif()
  penstock_link(gasnetrun_penstock gasnetrun_${name} ${CMAKE_INSTALL_BINDIR})
endfunction()
foreach(name ${PENSTOCK_CONDUIT_NAMES})
  if(NOT name MATCHES "^(aries|ibv|mpi|ofi|smp|ucx|udp)$")
    message(FATAL_ERROR "PENSTOCK_CONDUIT_NAMES: ${name} is none of GASNet's conduits aries, ibv, mpi, ofi, smp, ucx, udp")
  endif()
endforeach()

set(others ibverbs urcu-memb Threads::Threads ${CMAKE_DL_LIBS})
set(in_c stdc++ m)  # who links an archive with a C compiler needs these
set(pc_flags "-pthread -ldl -lstdc++ -lm")
set(pc_packages "libibverbs liburcu-memb")
set(heap_folders heap)
foreach(mode ${PENSTOCK_MODES})
  string(TOUPPER ${mode} MODE)
  set(defined PENSTOCK_MODE=${mode})
  set(folders c_${mode} conduit_${mode} queues_${mode} credit firehose interpose memreg nic job base)
  penstock_objects(objects ${folders})
  penstock_objects(gasnet_objects gasnet_${mode} gasnet_tools)
  if(with_shared)
    penstock_install(penstock-${mode} shared_${mode} SHARED
      OBJECTS ${objects} ${gasnet_objects} LINKS ${others} DEFINITIONS ${defined})
    penstock_version_script(installed_shared_${mode} tools/cmake/exports.map.in exports_${mode}.map)
    set(link libgasnet-penstock-${mode}${CMAKE_SHARED_LIBRARY_SUFFIX})
    file(CREATE_LINK libpenstock-${mode}${CMAKE_SHARED_LIBRARY_SUFFIX} ${PROJECT_BINARY_DIR}/${link} SYMBOLIC)
    install(FILES ${PROJECT_BINARY_DIR}/${link} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  endif()
  if(with_static)
    penstock_install(penstock-${mode} static_${mode} STATIC
      OBJECTS ${objects} LINKS ${others} ${in_c} DEFINITIONS ${defined})
    penstock_install(gasnet-penstock-${mode} static_gasnet_${mode} STATIC
      OBJECTS ${gasnet_objects} LINKS installed_static_${mode})
  endif()
  # Where there are only archives, everybody has to name what they need.
  set(pc_public "")
  if(NOT with_shared)
    set(pc_public " -libverbs -lurcu-memb ${pc_flags}")
  endif()
  penstock_pc(penstock-${mode} "Penstock's C++20 and C interfaces, thread mode ${MODE}" "-DPENSTOCK_MODE=${mode}"
              "-lpenstock-${mode}${pc_public}" "${pc_flags}" "${pc_packages}")
  penstock_conduit_files(penstock development "")
  foreach(name ${PENSTOCK_CONDUIT_NAMES})
    string(TOUPPER ${name} NAME)
    penstock_conduit_files(${name} conduit_names " -DGASNETC_CONDUIT_AS_${NAME}=1")
    penstock_conduit_links(${name})
  endforeach()
endforeach()

# The registered heap, with or without threads.
if(with_shared)
  # With jemalloc inside, so that its malloc takes the place of libc's, whether linked or preloaded.
  penstock_objects(objects heap program_malloc memreg base)
  penstock_install(penstock-heap shared_heap SHARED
    OBJECTS ${objects}
    LINKS -Wl,--whole-archive -l:libjemalloc_pic.a -Wl,--no-whole-archive Threads::Threads m ${CMAKE_DL_LIBS})
  penstock_version_script(installed_shared_heap tools/cmake/heap_exports.map.in exports_heap.map)
endif()
if(with_static)
  penstock_objects(objects heap)  # the rest is in penstock-MODE
  penstock_install(penstock-heap static_heap STATIC OBJECTS ${objects} LINKS jemalloc)
endif()
set(pc_public "-lpenstock-heap")
if(NOT with_shared)
  string(APPEND pc_public " -ljemalloc")
endif()
penstock_pc(penstock-heap "Penstock's registered heap, beside penstock-seq, -parsync or -par" ""
            "${pc_public}" "" "jemalloc")

install(FILES lib/include/penstock.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(DIRECTORY lib/include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN *.hpp PATTERN *.h)
install(DIRECTORY lib/gasnet/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN *.h)
install(PROGRAMS tools/cmake/gasnet/gasnetrun_penstock DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
install(EXPORT penstock NAMESPACE penstock:: DESTINATION ${packages_dir} FILE penstock-targets.cmake
        COMPONENT development)
configure_package_config_file(tools/cmake/penstock-config.cmake.in penstock-config.cmake
                              INSTALL_DESTINATION ${packages_dir})
write_basic_package_version_file(penstock-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/penstock-config.cmake
              ${PROJECT_BINARY_DIR}/penstock-config-version.cmake
        DESTINATION ${packages_dir} COMPONENT development)
