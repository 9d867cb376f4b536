// The names of gasnet.h's errors, and gasnet_getenv, which do not depend on the thread mode.
#define GASNET_PAR 1  // any mode: the names below are not mangled
#include <gasnet.h>

#include <gasnet_tools.h>

namespace {

struct error_text {
  int code;
  const char* name;
  const char* description;
};
constexpr error_text errors[] = {
    {GASNET_OK, "GASNET_OK", "no error"},
    {GASNET_ERR_NOT_INIT, "GASNET_ERR_NOT_INIT",
     "the call came before gasnet_init or gasnet_attach, or was a second one of these"},
    {GASNET_ERR_RESOURCE, "GASNET_ERR_RESOURCE", "a resource is missing, or the network failed"},
    {GASNET_ERR_BAD_ARG, "GASNET_ERR_BAD_ARG", "an argument is not allowed"},
    {GASNET_ERR_NOT_READY, "GASNET_ERR_NOT_READY", "the operation is not complete yet"},
    {GASNET_ERR_BARRIER_MISMATCH, "GASNET_ERR_BARRIER_MISMATCH",
     "the names given to a barrier differ"},
};

const error_text* find(int code) {
  for (const auto& e : errors)
    if (e.code == code) return &e;
  return nullptr;
}

}  // namespace

extern "C" {

// The interface returns char*, and forbids clients to write there.
char* gasnet_ErrorName(int errval) {
  const auto* e = find(errval);
  return const_cast<char*>(e != nullptr ? e->name : "*unknown*");
}
char* gasnet_ErrorDesc(int errval) {
  const auto* e = find(errval);
  return const_cast<char*>(e != nullptr ? e->description : "no such error");
}
char* gasnet_getenv(const char* name) { return gasnett_getenv(name); }

}  // extern "C"
