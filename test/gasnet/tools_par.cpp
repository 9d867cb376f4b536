// gasnet_tools.h alone, in C++, threaded; the key inside a namespace, as clients have it.
#define GASNETT_THREAD_SAFE
#include "tools_names.h"

#include <thread>

namespace client {
GASNETT_THREADKEY_DEFINE(inner_key);

int keys_are_per_thread() {
  int here = 0;
  void* elsewhere = &here;
  gasnett_threadkey_set(inner_key, &here);
  std::thread([&elsewhere] { elsewhere = gasnett_threadkey_get(inner_key); }).join();
  return gasnett_threadkey_get(inner_key) == &here && elsewhere == nullptr;
}

bool a_wait_ends() {
  bool told = false;
  gasnett_mutex_lock(&a_mutex);
  std::thread other([&told] {
    gasnett_mutex_lock(&a_mutex);  // free once the first waits
    told = true;
    gasnett_cond_broadcast(&a_cond);
    gasnett_mutex_unlock(&a_mutex);
  });
  while (!told) gasnett_cond_wait(&a_cond, &a_mutex);
  gasnett_mutex_unlock(&a_mutex);
  other.join();
  return told;
}
}  // namespace client

int main(int argc, char** argv) {
  CHECK(client::keys_are_per_thread());
  CHECK(client::a_wait_ends());
  return tools_names(argc, argv);
}
