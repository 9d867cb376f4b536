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
    list(APPEND personality_tests conduit.under.${name}.${mode})
  endforeach()
  set(personality_tests ${personality_tests} PARENT_SCOPE)
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

# What goes wrong and must do no harm.
under(any_order plain any_order)
under(bad_datagrams plain "lost=10%,doubled=10%,overtaken=20%")
under(slow_link plain "delay=1us,rate=100Gbit,rnr=3ms")

# What goes wrong and ends the job by a line, or does no harm either; with "!" it must end the job.
# faulty(NAME MODE FAULTS...)
function(faulty name mode)
  add_test(NAME conduit.faulty.${name}.${mode}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/faulty $<TARGET_FILE:penrun> 20 $<TARGET_FILE:am_flood_${mode}> 1000
                   -- ${ARGN})
  set_tests_properties(conduit.faulty.${name}.${mode} PROPERTIES TIMEOUT 500 LABELS "job;personality" PROCESSORS 2)
  label_mode(conduit.faulty.${name}.${mode} ${mode})
  set(personality_tests ${personality_tests} conduit.faulty.${name}.${mode} PARENT_SCOPE)
endfunction()
faulty(some seq !create_cq=4:ENOMEM !poll_cq=1000:EIO send=1:RETRY_EXC_ERR !send=30:REM_ACCESS_ERR receive=1:LOC_PROT_ERR
       port_down=200:20ms)
faulty(some par !post_send=300:ENOMEM !receive=201:LOC_LEN_ERR !gone=300)

faulty(calls seq !alloc_pd=2:ENOMEM !query_port=1:EIO !reg_mr=3:EFAULT !create_cq=4:ENOMEM !create_srq=3:ENOMEM
       create_qp=2:ENOMEM create_qp=16:ENOMEM modify_qp=1:EINVAL modify_qp=9:ENOMEM create_ah=1:ENOMEM)
faulty(posts seq post_send=1:ENOMEM !post_send=40:EINVAL !post_srq_recv=100:EINVAL !poll_cq=5:EIO !poll_cq=1000:EIO
       post_recv=2:ENOMEM req_notify_cq=1:EIO)
faulty(posts par !post_send=300:ENOMEM !poll_cq=1001:EIO)
faulty(completions seq send=1:RETRY_EXC_ERR !send=30:REM_ACCESS_ERR !send=400:WR_FLUSH_ERR receive=1:LOC_PROT_ERR
       !receive=200:REM_ABORT_ERR)
faulty(completions par !send=301:RNR_RETRY_EXC_ERR !receive=201:LOC_LEN_ERR)
foreach(mode seq par)
  faulty(device ${mode} !gone=300 !gone=5ms port_down=200:20ms !port_down=200)
endforeach()

# All of them: ctest -L personality. The check runs a few.
set(beyond_the_check ${personality_tests})
list(FILTER beyond_the_check EXCLUDE REGEX "one_sge_no_inline|overrun.par|any_order.par|bad_datagrams.seq|faulty.some")
set_property(TEST ${beyond_the_check} APPEND PROPERTY LABELS long)
