// The command line of the programs over all libraries: PROGRAM WAY [SIZE]. Prints "figure SECONDS"
// if the answer is right; a wrong one is a failure.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "perf/programs/heat.hpp"
#include "perf/programs/table.hpp"
#include "perf/programs/tree.hpp"
#include "perf/programs/updates.hpp"

namespace penstock::programs {

template <class Library>
outcome run_one(typename Library::job& job, std::string_view program, bool mail, std::size_t size) {
  using job_type = typename Library::job;
  using memory = typename Library::memory;
  const auto or_usual = [size](std::size_t usual) { return size != 0 ? size : usual; };
  if (program == "heat") {
    const std::size_t cells = or_usual(64);
    return mail ? heat<typename Library::faces_by_mail>(job, cells)
                : heat<typename Library::faces_by_memory>(job, cells);
  }
  if (program == "updates") {
    const std::size_t words = or_usual(std::size_t{1} << 20);
    return mail ? updates<updates_by_mail<Library::template mail, job_type>>(job, words)
                : updates<updates_by_memory<memory, job_type>>(job, words);
  }
  if (program == "table") {
    const std::size_t keys = or_usual(50'000);
    return mail ? table<table_by_mail<Library::template mail, job_type>>(job, keys)
                : table<table_by_memory<memory, job_type>>(job, keys);
  }
  const std::size_t first = or_usual(40'000);
  return mail ? tree<stealing_by_mail<Library::template mail, job_type>>(job, first)
              : tree<stealing_by_memory<memory, job_type>>(job, first);
}

template <class Library>
int run(int argc, char** argv) {
  typename Library::job job(argc, argv);  // may take arguments away that its launcher has added
  const std::string_view program = argc > 1 ? argv[1] : "", way = argc > 2 ? argv[2] : "";
  const bool known =
      program == "heat" || program == "updates" || program == "table" || program == "tree";
  if (!known || (way != "mail" && way != "memory")) {
    std::fprintf(stderr, "usage: %s heat|updates|table|tree mail|memory [SIZE]\n", argv[0]);
    return 2;
  }
  const std::size_t size = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  const outcome o = run_one<Library>(job, program, way == "mail", size);
  const word wrong = job.sum(o.right ? 0 : 1);
  if (job.rank() == 0) {
    if (wrong == 0)
      std::printf("figure %.6f\n", o.seconds);
    else
      std::fprintf(stderr, "%s by %s: %lu ranks have a wrong answer\n", argv[1], argv[2],
                   static_cast<unsigned long>(wrong));
  }
  job.barrier();
  return wrong == 0 ? 0 : 1;
}

}  // namespace penstock::programs
