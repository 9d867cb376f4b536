# What is installed beside the library: programs on the PATH, in libexec the programs that these start, man
# pages, completion, documents, examples; and the Debian packages that cpack makes of it all.
set(own_dir ${CMAKE_INSTALL_LIBEXECDIR}/penstock)
set(on_path penrun penverbs peninfo penperf pencredit pentop pentrace creditsim)
install(TARGETS ${on_path} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
list(TRANSFORM PENSTOCK_MODES PREPEND penperf- OUTPUT_VARIABLE penperf_modes)
install(TARGETS ${penperf_modes} ghost ghost-par threads barriers collectives first
        RUNTIME DESTINATION ${own_dir} COMPONENT programs)

# penstock_zipped(FILE TEXT): as gzip -9n makes it of the text
function(penstock_zipped file text)
  file(WRITE ${file}.text "${text}")
  execute_process(COMMAND gzip -9nc ${file}.text OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man ${PROJECT_BINARY_DIR}/package)

# A man page says what --help says, and cannot say anything else.
set(pages "")
foreach(program ${on_path})
  set(asked ${program})
  if(program STREQUAL penperf)
    set(asked penperf-seq)  # which penperf becomes
  endif()
  set(page ${PROJECT_BINARY_DIR}/man/${program}.1.gz)
  add_custom_command(OUTPUT ${page}
    COMMAND ${PROJECT_SOURCE_DIR}/tools/man_page ${program} ${PROJECT_VERSION} $<TARGET_FILE:${asked}> | gzip -9n > ${page}
    DEPENDS ${asked} ${PROJECT_SOURCE_DIR}/tools/man_page VERBATIM)
  list(APPEND pages ${page})
endforeach()
add_custom_target(man_pages ALL DEPENDS ${pages})
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
# What GASNet's clients call to start a job is penrun.
penstock_zipped(${PROJECT_BINARY_DIR}/man/gasnetrun_penstock.1.gz ".so man1/penrun.1\n")
install(FILES ${PROJECT_BINARY_DIR}/man/gasnetrun_penstock.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
foreach(program ${on_path})  # bash looks for a file of the program's name
  install(FILES tools/completion.bash RENAME ${program}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
endforeach()

# The settings have a page of their own, written by the table that the parser reads.
set(settings_page ${PROJECT_BINARY_DIR}/man/penstock.7.gz)
add_custom_command(OUTPUT ${settings_page}
  COMMAND ${PROJECT_SOURCE_DIR}/tools/man_page --settings ${PROJECT_VERSION} $<TARGET_FILE:peninfo> | gzip -9n > ${settings_page}
  DEPENDS peninfo ${PROJECT_SOURCE_DIR}/tools/man_page VERBATIM)
add_custom_target(settings_page ALL DEPENDS ${settings_page})
install(FILES ${settings_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 COMPONENT programs)

# The site, with the reference of the public headers: cmake --build build --target reference
find_program(PENSTOCK_DOXYGEN doxygen)
if(PENSTOCK_DOXYGEN)
  configure_file(tools/cmake/Doxyfile.in Doxyfile @ONLY)
  add_custom_target(reference
    COMMAND ${PROJECT_SOURCE_DIR}/tools/site/gather ${PROJECT_BINARY_DIR}/site
    COMMAND ${PENSTOCK_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
    COMMAND ${PROJECT_SOURCE_DIR}/tools/site/whole ${PROJECT_BINARY_DIR} VERBATIM)
endif()

# The Python package as a wheel: cmake --build build --target wheel
if(TARGET installed_shared_par)
  add_custom_target(wheel
    COMMAND ${PROJECT_SOURCE_DIR}/lib/python/wheel ${PROJECT_BINARY_DIR}/wheel ${PROJECT_VERSION}
            $<TARGET_FILE:installed_shared_seq> $<TARGET_FILE:installed_shared_parsync> $<TARGET_FILE:installed_shared_par>
            $<TARGET_FILE:penrun>
    DEPENDS installed_shared_seq installed_shared_parsync installed_shared_par penrun VERBATIM)
endif()

# Debian wants each package's licence and changes in the package's own folder.
set(PENSTOCK_MAINTAINER "Penstock <penstock@example.org>" CACHE STRING "Who makes the Debian packages: NAME <ADDRESS>")
set(package_of_libraries libpenstock${abi_version})
set(package_of_development libpenstock-dev)
set(package_of_programs penstock)
set(package_of_documentation penstock-doc)
set(LC_ALL_before "$ENV{LC_ALL}")
set(ENV{LC_ALL} C)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(ENV{LC_ALL} "${LC_ALL_before}")
set(changes ${PROJECT_BINARY_DIR}/package/changelog.Debian.gz ${PROJECT_BINARY_DIR}/package/changelog.gz)
penstock_zipped(${PROJECT_BINARY_DIR}/package/changelog.Debian.gz
  "penstock (${PROJECT_VERSION}-1) unstable; urgency=medium\n\n  * Version ${PROJECT_VERSION}, packaged by cpack.\n\n -- ${PENSTOCK_MAINTAINER}  ${now}\n")
file(READ tools/CHANGELOG.md changelog)
penstock_zipped(${PROJECT_BINARY_DIR}/package/changelog.gz "${changelog}")
foreach(part libraries development programs documentation)
  set(own_doc ${CMAKE_INSTALL_DATADIR}/doc/${package_of_${part}})
  install(FILES LICENSE RENAME copyright DESTINATION ${own_doc} COMPONENT ${part})
  install(FILES ${changes} DESTINATION ${own_doc} COMPONENT ${part})
endforeach()
set(doc_dir ${CMAKE_INSTALL_DATADIR}/doc/penstock)
install(FILES README.md DESTINATION ${doc_dir} COMPONENT programs)
# The site, if it has been made before.
install(DIRECTORY ${PROJECT_BINARY_DIR}/reference/html DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package_of_documentation}
        COMPONENT documentation OPTIONAL)
# Texts lie to each other as in the source, so that their links lead there.
install(FILES lib/SEMANTICS.md lib/PROBES.md DESTINATION ${doc_dir}/lib COMPONENT programs)
install(FILES perf/tutorial/README.md perf/tutorial/message.cpp perf/tutorial/one_sided.cpp perf/tutorial/threads.cpp
              perf/tutorial/server.cpp perf/tutorial/in_c.c perf/tutorial/with_asio.cpp
        DESTINATION ${doc_dir}/perf/tutorial COMPONENT programs)
install(FILES perf/hello/hello.cpp test/outside/project/CMakeLists.txt test/outside/project/greet.cpp
              test/outside/project_c/gasnet_greet.c test/outside/project_c/c_greet.c
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libpenstock-dev/examples COMPONENT development)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_VENDOR Penstock)
set(CPACK_PACKAGE_CONTACT "${PENSTOCK_MAINTAINER}")
set(about "GASNet conduit on InfiniBand verbs")  # Debian wants no article
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${about}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL libraries development programs documentation)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME ${package_of_libraries})
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SHLIBDEPS ON)
# For who packages a client: dpkg-shlibdeps learns which package a library of the program is in.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_RECOMMENDS libpmix2)  # opened at run time, by jobs that Slurm starts
set(CPACK_DEBIAN_LIBRARIES_DESCRIPTION "${about}: shared libraries")
# And since which version it has each symbol that the client uses.
set(symbols_file ${PROJECT_BINARY_DIR}/package/symbols)
set(with_symbols "")
if(with_shared)
  set(libraries_of_package ${PENSTOCK_MODES} heap)
  list(TRANSFORM libraries_of_package PREPEND installed_shared_)
  set(library_files ${libraries_of_package})
  list(TRANSFORM library_files REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  add_custom_command(OUTPUT ${symbols_file}
    COMMAND ${PROJECT_SOURCE_DIR}/tools/package/symbols ${package_of_libraries} ${PROJECT_VERSION} ${package_of_development}
            ${library_files} > ${symbols_file}
    DEPENDS ${libraries_of_package} ${PROJECT_SOURCE_DIR}/tools/package/symbols VERBATIM)
  add_custom_target(symbols_of_package ALL DEPENDS ${symbols_file})
  set(with_symbols ${symbols_file})
endif()
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_CONTROL_STRICT_PERMISSION ON)  # whatever the umask of who has cloned
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/tools/package/triggers ${with_symbols})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME ${package_of_development})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${package_of_libraries} (= ${PROJECT_VERSION}-1), libibverbs-dev, liburcu-dev, libjemalloc-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "${about}: headers, archives, examples")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME ${package_of_programs})
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAMS_DESCRIPTION "${about}: launcher and tools")
set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_NAME ${package_of_documentation})
set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DOCUMENTATION_DESCRIPTION "${about}: reference, tutorials, questions, lines")
# What is packaged is configured once more, for Debian's folder of libraries (tools/package/tree.cmake).
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/tools/package/tree.cmake)
set(CPACK_PENSTOCK_BUILD ${PROJECT_BINARY_DIR})
set(CPACK_PENSTOCK_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_PENSTOCK_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE})
set(CPACK_PENSTOCK_SITE "${PENSTOCK_DOXYGEN}")
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR}/package/tree;${PROJECT_NAME};ALL;/")
include(CPack)
