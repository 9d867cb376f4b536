# Jobs by verbs on a shm0 that pretends to be another adapter, or on which something goes wrong
# (nic/shm/PERSONALITIES.md).
# under(NAME PERSONALITY FAULTS): a compact set of jobs, SEQ and PAR, which must end well.
function(under name personality faults)
  foreach(mode seq par)
    set(programs gasnet_barrier_${mode}_c gasnet_vis_${mode}_c gasnet_leave_seq gasnet_leave_par leave_seq leave_par)
    foreach(program am_kinds am_flood connect rma_transfers rma_atomics rma_everything)
      list(APPEND programs ${program}_${mode})
    endforeach()
    list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>")
    add_test(NAME conduit.under.${name}.${mode}
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/under "${personality}" "${faults}" $<TARGET_FILE:penrun> ${mode}
                     ${PROJECT_BINARY_DIR} ${programs})
    set_tests_properties(conduit.under.${name}.${mode} PROPERTIES TIMEOUT 300 LABELS "job;personality" PROCESSORS 2)
    label_mode(conduit.under.${name}.${mode} ${mode})
    list(APPEND personality_tests conduit.under.${name}.${mode})
  endforeach()
  set(personality_tests ${personality_tests} PARENT_SCOPE)
endfunction()
under(one_sge_no_inline one_sge,no_inline "")
under(overrun overrun "")
under(entries_16383 entries_16383 "")
# The shortest queues: credits that do not move.
under(small small "")
# Short ones, in which they do.
under(short "srq_wr=100,cqe=120,qp_wr=16" "")

# What the device lacks is named.
# refused_under(NAME PROCESSES PERSONALITY LINE SETTINGS...)
function(refused_under name processes personality line)
  add_test(NAME conduit.refused_under.${name}
           COMMAND penrun -n ${processes} --timeout 100 -x PENSTOCK_DEVICE=shm0 -x PENSTOCK_DIRECT=0
                   -x PENSTOCK_SHM_PERSONALITY=${personality} ${ARGN} $<TARGET_FILE:am_flood_seq> 1000)
  set_tests_properties(conduit.refused_under.${name} PROPERTIES TIMEOUT 120 LABELS "job;quick;seq;personality"
                       PASS_REGULAR_EXPRESSION "${line}")
endfunction()
refused_under(small 5 small "the device has room for 15, and 4 other ranks take 16 at least. start fewer ranks")
refused_under(small.credits 2 small
              "completion queue of requests needs [0-9]+ entries, and shm0 allows 32. lower PENSTOCK_CRED_PER_NODE"
              -x PENSTOCK_CRED_PER_NODE=17)
refused_under(small.rings 3 small "room for 15 credits, too few for messages by rings[^\n]*set PENSTOCK_DIRECT=0"
              -x PENSTOCK_DIRECT=1 -x PENSTOCK_SUPERNODE_MAXSIZE=2)
refused_under(no_srq 3 no_srq "shm0 allows 0 shared receive queues, and messages by verbs take 3")
refused_under(qp=4 3 qp=4 "no (connection to|queue pair for) rank [0-9]: ibv_create_qp [^\n]* on shm0: Cannot allocate memory")
refused_under(huge 3 huge "PENSTOCK_SHM_PERSONALITY: there is no \"huge\"[^\n]*entries_16383")

# A shorter table is told once, and by the memory report.
set(told "the device's queues are short: 7 credits for each other rank and 0 in the bank, which never move, instead of 400")
add_test(NAME conduit.short_table.told
         COMMAND penrun -n 3 --timeout 100 ${by_verbs} -x PENSTOCK_SHM_PERSONALITY=small -x PENSTOCK_LOG=info
                 $<TARGET_FILE:am_flood_seq> 1000)
set_tests_properties(conduit.short_table.told PROPERTIES TIMEOUT 120 LABELS "job;quick;seq;personality"
                     PASS_REGULAR_EXPRESSION "${told}" FAIL_REGULAR_EXPRESSION "are short:.*are short:")
add_test(NAME conduit.short_table.memory
         COMMAND penrun -n 3 --timeout 100 ${by_verbs} -x PENSTOCK_SHM_PERSONALITY=small $<TARGET_FILE:peninfo> --memory)
set_tests_properties(conduit.short_table.memory PROPERTIES TIMEOUT 120 LABELS "job;quick;seq;personality"
                     PASS_REGULAR_EXPRESSION "rank 0[^\n]*\n.*${told}")
# In a large job of adapters with 16,383 entries a queue all ranks can be connected.
add_test(NAME conduit.short_table.large COMMAND peninfo --memory -n 1024)
set_tests_properties(conduit.short_table.large PROPERTIES TIMEOUT 120 LABELS "quick;seq;personality"
  ENVIRONMENT "PENSTOCK_DEVICE=shm0;PENSTOCK_DIRECT=0;PENSTOCK_SHM_PERSONALITY=entries_16383"
  PASS_REGULAR_EXPRESSION "7 credits for each other rank and 8[0-9]+ in the bank, instead of 12 credits")
# It is the same on ranks whose devices differ: that of the shortest queues.
# devices_differ(NAME PERSONALITY_0 PERSONALITY_1): ranks 0 and 1 of 4 have these devices, the others plain ones.
function(devices_differ name first second)
  foreach(mode seq par)
    add_test(NAME conduit.devices_differ.${name}.${mode}
             COMMAND penrun -n 4 --timeout 100 ${by_verbs} sh -c
                     "case $PENRUN_RANK in 0) set ${first};; 1) set ${second};; *) set plain;; esac; PENSTOCK_SHM_PERSONALITY=$1 exec $<TARGET_FILE:am_kinds_${mode}>")
    set_tests_properties(conduit.devices_differ.${name}.${mode} PROPERTIES TIMEOUT 120
                         LABELS "job;quick;personality" PROCESSORS 2)
    label_mode(conduit.devices_differ.${name}.${mode} ${mode})
  endforeach()
endfunction()
devices_differ(one plain small)
devices_differ(two "srq_wr=300,cqe=400" "srq_wr=200,cqe=400")
devices_differ(both_kinds "srq_wr=300" small)
# Few receives are enough: no message finds none, in floods of Shorts and of Mediums of all sizes.
foreach(processes 2 4)
  foreach(mode seq par)
    add_test(NAME conduit.all_to_one.small.${processes}.${mode}
             COMMAND penrun -n ${processes} --timeout 100 ${by_verbs} -x PENSTOCK_SHM_PERSONALITY=small
                     $<TARGET_FILE:all_to_one_${mode}> 3000 any)
    set_tests_properties(conduit.all_to_one.small.${processes}.${mode} PROPERTIES TIMEOUT 120
                         LABELS "job;personality" PROCESSORS 2)
    label_mode(conduit.all_to_one.small.${processes}.${mode} ${mode})
  endforeach()
endforeach()
# The progress thread's own receives fit, too.
add_test(NAME conduit.small.progress
         COMMAND penrun -n 4 --timeout 100 ${by_verbs} -x PENSTOCK_SHM_PERSONALITY=small -x PENSTOCK_PROGRESS_THREAD=1
                 $<TARGET_FILE:am_flood_par> 3000)
set_tests_properties(conduit.small.progress PROPERTIES TIMEOUT 120 LABELS "job;quick;par;personality" PROCESSORS 2)

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

faulty(calls seq !alloc_pd=2:ENOMEM !query_port=1:EIO !reg_mr=3:EFAULT !create_cq=4:ENOMEM !create_srq=2:ENOMEM
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

# Faults at random moments, of random devices; by hand with another seed and thousands of jobs.
find_program(PENSTOCK_PYTHON python3)
if(PENSTOCK_PYTHON)
  function(faults_at_random name count seed timeout labels)
    add_test(NAME conduit.faults_at_random.${name}
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/faults_at_random $<TARGET_FILE:penrun> ${count} ${seed} 40
                     $<TARGET_FILE:am_flood_seq>,300 $<TARGET_FILE:am_flood_par>,300 $<TARGET_FILE:large_seq>,10
                     $<TARGET_FILE:large_par>,10)
    set_tests_properties(conduit.faults_at_random.${name} PROPERTIES TIMEOUT ${timeout} LABELS "${labels}"
                         PROCESSORS 2)
  endfunction()
  faults_at_random(some 25 1 300 "job;release")
  faults_at_random(many 600 2 1800 "job;release;long")
endif()

# A rank whose own port is down blames that, not the peer that cannot answer.
add_test(NAME conduit.port_down_early
         COMMAND penrun -n 2 --timeout 6 -x PENSTOCK_DEVICE=shm0 -x PENSTOCK_DIRECT=0 -x PENSTOCK_CONNECT_TIMEOUT=1
                 -x PENSTOCK_SHM_FAULT=port_down=1 $<TARGET_FILE:am_flood_seq> 100)
set_tests_properties(conduit.port_down_early PROPERTIES TIMEOUT 60 LABELS "job;seq" PROCESSORS 2 PASS_REGULAR_EXPRESSION
  "has not answered for [1-5].[0-9] s while a connection to it is made. it is waited for \\(this process's port is down\\)")

# All of them: ctest -L personality. The check runs a few.
set(beyond_the_check ${personality_tests})
list(FILTER beyond_the_check EXCLUDE REGEX "one_sge_no_inline|overrun.par|under.small.par|any_order.par|bad_datagrams.seq|faulty.some")
set_property(TEST ${beyond_the_check} APPEND PROPERTY LABELS long)
