#include "lib/conduit/report/open_engines.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "lib/base/immortal.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// An endpoint that is a static object may end after static objects here.
struct list {
  std::mutex lock;
  std::vector<const engine*> engines;  // under lock; null: the number is free
};
list& all() {
  static immortal<list> l;
  return l.value;
}

}  // namespace

open_engine::open_engine(const engine& e) : engine_(&e) {
  list& l = all();
  const std::lock_guard hold(l.lock);
  const auto place = std::find(l.engines.begin(), l.engines.end(), nullptr);
  if (place != l.engines.end())
    *place = engine_;
  else
    l.engines.push_back(engine_);
}

open_engine::~open_engine() {
  list& l = all();
  const std::lock_guard hold(l.lock);
  std::replace(l.engines.begin(), l.engines.end(), engine_, static_cast<const engine*>(nullptr));
}

bool open_engine::with(unsigned number, const std::function<void(const engine&)>& f) {
  list& l = all();
  const std::lock_guard hold(l.lock);
  if (number >= l.engines.size() || l.engines[number] == nullptr) return false;
  f(*l.engines[number]);
  return true;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
