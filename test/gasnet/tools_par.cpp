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
}  // namespace client

int main(int argc, char** argv) {
  CHECK(client::keys_are_per_thread());
  return tools_names(argc, argv);
}
