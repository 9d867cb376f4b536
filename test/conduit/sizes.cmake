# The smallest and the largest Medium of a build (lib/base/limits.hpp): every room that derives its sizes from it
# is compiled again for each, with what it takes to run a few jobs, and these run by rings and by verbs.
# Without optimization: what is tested is arithmetic, and the check has to be short; not among the quick tests, since
# most of the library is compiled twice more for it.
set(job_labels job)

# A folder's target once more, as penstock_NAME_BYTES, linked with the others of that size.
function(sized_folder name bytes)
  get_target_property(sources penstock_${name} SOURCES)
  get_target_property(folder penstock_${name} SOURCE_DIR)
  list(TRANSFORM sources PREPEND ${folder}/)
  get_target_property(links penstock_${name} LINK_LIBRARIES)
  list(TRANSFORM links REPLACE "^(penstock_(${sized_names}))$" "\\1_${bytes}")
  get_target_property(definitions penstock_${name} INTERFACE_COMPILE_DEFINITIONS)
  set(target penstock_${name}_${bytes})
  add_library(${target} STATIC ${sources})
  target_link_libraries(${target} PUBLIC ${links})
  target_compile_options(${target} PRIVATE -O0)
  get_target_property(unity penstock_${name} UNITY_BUILD)
  if(unity)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${CMAKE_UNITY_BUILD_BATCH_SIZE})
  endif()
  target_compile_definitions(${target} PUBLIC PENSTOCK_MAX_MEDIUM=${bytes})
  if(definitions)
    target_compile_definitions(${target} PUBLIC ${definitions})
  endif()
endfunction()

set(sized_folders nic credit queues_seq conduit_seq)
list(JOIN sized_folders "|" sized_names)
foreach(bytes 512 65024)
  foreach(name ${sized_folders})
    sized_folder(${name} ${bytes})
  endforeach()
  foreach(source am_kinds.cpp am_errors.cpp am_flood.cpp ${PROJECT_SOURCE_DIR}/perf/hello/hello.cpp)
    cmake_path(GET source STEM program)
    add_executable(${program}_${bytes} ${source})
    target_compile_options(${program}_${bytes} PRIVATE -O0)
    target_link_libraries(${program}_${bytes} PRIVATE penstock_conduit_seq_${bytes})
  endforeach()
  job_test(sizes.${bytes}.kinds 2 am_kinds_${bytes})
  job_test(sizes.${bytes}.errors 2 am_errors_${bytes})
  job_test(sizes.${bytes}.flood 3 am_flood_${bytes} 5000)
  # The fewest credits that there may be: what the largest message lacks has to move every time.
  job_test(sizes.${bytes}.few 3 am_flood_${bytes} 2000 SETTINGS -x PENSTOCK_CRED_PER_NODE=4
           -x PENSTOCK_BANKED_CREDITS=260)
  job_test(sizes.${bytes}.hello 4 hello_${bytes})
endforeach()
set(job_labels "job;quick")
