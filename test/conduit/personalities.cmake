# Jobs by verbs on a shm0 that pretends to be another adapter, or on which something goes wrong
# (nic/shm/PERSONALITIES.md).
# under(NAME PERSONALITY FAULTS): a compact set of jobs, SEQ and PAR, which must end well.
function(under name personality faults)
  foreach(mode seq par)
    add_test(NAME conduit.under.${name}.${mode}
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/under "${personality}" "${faults}" $<TARGET_FILE:penrun> ${mode}
                     ${PROJECT_BINARY_DIR})
    set_tests_properties(conduit.under.${name}.${mode} PROPERTIES TIMEOUT 300 LABELS "job;personality" PROCESSORS 2)
    label_mode(conduit.under.${name}.${mode} ${mode})
  endforeach()
endfunction()
under(one_sge_no_inline one_sge,no_inline "")
under(overrun overrun "")
under(entries_16383 entries_16383 "")

# What the device lacks is named.
function(refused_under personality line)
  add_test(NAME conduit.refused_under.${personality}
           COMMAND penrun -n 3 --timeout 20 -x PENSTOCK_DEVICE=shm0 -x PENSTOCK_DIRECT=0
                   -x PENSTOCK_SHM_PERSONALITY=${personality} $<TARGET_FILE:am_flood_seq> 1000)
  set_tests_properties(conduit.refused_under.${personality} PROPERTIES TIMEOUT 30 LABELS "job;quick;seq;personality"
                       PASS_REGULAR_EXPRESSION "${line}")
endfunction()
refused_under(small "completion queue of requests needs [0-9]+ entries, and shm0 allows 32; lower PENSTOCK_CRED_PER_NODE")
refused_under(no_srq "shm0 allows 0 shared receive queues, and messages by verbs take 3")
refused_under(qp=4 "no queue pair for rank [0-9]: ibv_create_qp [^\n]* on shm0: Cannot allocate memory")
refused_under(huge "PENSTOCK_SHM_PERSONALITY: there is no \"huge\"[^\n]*entries_16383")
