// What a launcher says by PMI-1 and PMI-2: all its words stand in the socket before they are asked
// for. Either the one protocol's calls are made, or a process joins the job.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "lib/job/launchers.hpp"
#include "lib/job/pmi.hpp"
#include "test/fuzz/target.hpp"

using namespace penstock::job;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::input in(data, bytes);
  const std::uint8_t how = in.byte();
  const bool second = how % 2 != 0;
  const std::string_view words = in.rest().substr(0, 60'000);
  int ends[2];
  FUZZ_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  FUZZ_CHECK(::send(ends[1], words.data(), words.size(), MSG_DONTWAIT) ==
             static_cast<ssize_t>(words.size()));
  ::shutdown(ends[1], SHUT_WR);
  const auto talk = [&] {
    const auto agreed = pmi_agree_on(ends[0], second ? 2 : 1, second ? 0 : 1);
    if (!agreed || !*agreed) return;
    const auto speech = second ? speak_pmi2(ends[0], "job") : speak_pmi1(ends[0]);
    pmi_place place{0, 2};
    if (!speech->begin(place)) return;
    (void)speech->mapping();
    if (!speech->put("key", "value") || !speech->fence()) return;
    if (const auto got = speech->get("key")) FUZZ_CHECK(got->size() <= words.size());
    speech->finalize();
  };
  const auto join = [&] {
    penstock::settings s;
    s.pmi_fd = std::to_string(ends[0]);
    s.pmi_version = second ? 2 : 1;
    s.pmi_rank = "1", s.pmi_size = "2";
    const auto joined = join_pmi(s);
    if (!joined) return;
    const job& j = **joined;
    FUZZ_CHECK(j.rank() < j.size() && j.size() <= most_ranks && j.name().size() == 32);
    const auto& near = j.host_ranks();
    FUZZ_CHECK(j.host_rank() < near.size() && near[j.host_rank()] == j.rank());
    FUZZ_CHECK(near.back() < j.size());
    FUZZ_CHECK(std::adjacent_find(near.begin(), near.end(), std::greater_equal<>()) == near.end());
    (*joined)->finalize(0);
  };
  if (how % 4 < 2)
    talk();
  else
    join();
  ::close(ends[0]);
  ::close(ends[1]);
  return 0;
}
