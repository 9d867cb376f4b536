#include "nic/tcp/context.hpp"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/shortage.hpp"
#include "nic/tcp/network.hpp"

namespace penstock::nic::tcp {

result<std::unique_ptr<shm::context>> make_context(const settings& s, std::string_view secret) {
  tcp::options o;
  if (s.tcp_interface != "auto") o.where = s.tcp_interface;
  o.first_port = static_cast<std::uint16_t>(s.tcp_port);
  o.patience_ns = s.tcp_timeout_ns;
  o.names_ends = secret.empty();  // a job's engine and launcher name a rank that is lost
  std::string text(secret);
  if (text.empty() && s.tcp_secret != "none") text = s.tcp_secret;
  if (!text.empty() && text.front() == '/') {
    const std::string path = text;
    text = text_of(path);
    if (text.empty())
      return failure{"the file of PENSTOCK_TCP_SECRET, " + path, errno,
                     "it has to hold a text that only this job's processes know"};
  }
  o.key = tcp::secret::of(text);
  auto p = shm::parse_pretence(s.shm_personality, "");
  if (!p) return p.error();
  p->plays.overruns = true;  // as on an adapter: nothing waits in front of a completion queue
  auto c = shm::make_context(*p, std::make_unique<tcp::network>(o));
  if (!c) return failure{"tcp0", errno, what_to_raise(errno)};
  return c;
}

std::unique_ptr<shm::context> make_context_of_environment() {
  std::vector<const char*> ours;  // tags of other subsystems are not ours
  for (char** at = environ; at != nullptr && *at != nullptr; ++at)
    if (std::string_view(*at).starts_with("PENSTOCK_TCP_")) ours.push_back(*at);
  const auto s = read_settings({}, ours, "");
  if (!s) {
    log(log_level::error, "tcp0: %s", s.error().message().c_str());
    return errno = EINVAL, nullptr;
  }
  auto c = make_context(*s, "");
  if (c) return *std::move(c);
  log(log_level::error, "tcp0: %s", c.error().message().c_str());
  return errno = c.error().code != 0 ? c.error().code : EINVAL, nullptr;
}

}  // namespace penstock::nic::tcp
