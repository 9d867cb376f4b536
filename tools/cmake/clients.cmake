# The targets that clients in the same build link, with the names that find_package gives those of an installed tree:
# penstock::seq, ::parsync, ::par, penstock::gasnet_seq, penstock::c_seq and so on, penstock::heap. They pass on to a client's sources what
# these need, the public headers and the thread mode, and none of the house's own options.
function(penstock_client name library)
  add_library(penstock_client_${name} INTERFACE)
  add_library(penstock::${name} ALIAS penstock_client_${name})
  target_link_libraries(penstock_client_${name} INTERFACE $<LINK_ONLY:${library}>)
  target_include_directories(penstock_client_${name} SYSTEM INTERFACE ${PROJECT_SOURCE_DIR}/lib/include ${ARGN})
endfunction()

foreach(mode ${PENSTOCK_MODES})
  string(TOUPPER ${mode} MODE)
  penstock_client(${mode} penstock_conduit_${mode})
  target_compile_definitions(penstock_client_${mode} INTERFACE PENSTOCK_MODE=${mode})
  target_compile_features(penstock_client_${mode} INTERFACE cxx_std_20)
  penstock_client(c_${mode} penstock_c_${mode})
  penstock_client(gasnet_${mode} penstock_gasnet_${mode} ${PROJECT_SOURCE_DIR}/lib/gasnet/include)
  target_compile_definitions(penstock_client_gasnet_${mode} INTERFACE GASNET_${MODE}=1)
endforeach()
if(TARGET penstock_heap)
  penstock_client(heap penstock_heap)
endif()
