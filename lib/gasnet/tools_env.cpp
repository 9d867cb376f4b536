// The environment as gasnet_tools.h offers it to clients: the job's comes first, then the process's
// own. Typed lookups refuse a text that they cannot read, and show the values that they have found
// when asked to. Penstock's own settings are not read here; they have their table.
#include <gasnet_tools.h>

#include <strings.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "lib/gasnet/tools_hooks.hpp"

namespace {

// Written by gasnet_init before the client can have started threads; relaxed for that reason.
std::atomic<bool> speaks{true};

// True the first time a key is shown: each setting is shown once, however often it is read.
bool first_showing(const char* key) {
  static std::mutex lock;
  static std::set<std::string> shown;
  const std::lock_guard hold(lock);
  return shown.insert(key).second;
}

bool is_one_of(const char* value, std::initializer_list<const char*> words) {
  for (const char* w : words)
    if (strcasecmp(value, w) == 0) return true;
  return false;
}

// A number or a fraction of two; false if text is neither.
bool parse_double(const char* text, double& value) {
  char* end = nullptr;
  value = std::strtod(text, &end);
  if (end == text) return false;
  if (*end == '/') {
    const char* below = end + 1;
    const double divisor = std::strtod(below, &end);
    if (end == below || divisor == 0) return false;
    value /= divisor;
  }
  return *end == '\0';
}

}  // namespace

namespace penstock::gasnet {

void set_speaker(bool s) noexcept { speaks.store(s, std::memory_order_relaxed); }

}  // namespace penstock::gasnet

extern "C" {

char* gasnett_getenv(const char* key) { return key == nullptr ? nullptr : std::getenv(key); }

void gasnett_setenv(const char* key, const char* value) {
  if (::setenv(key, value, 1) != 0) gasnett_fatalerror("cannot set environment variable %s", key);
}
void gasnett_unsetenv(const char* key) {
  if (::unsetenv(key) != 0) gasnett_fatalerror("cannot unset environment variable %s", key);
}

int gasnett_verboseenv(void) {
  return speaks.load(std::memory_order_relaxed) && gasnett_getenv("GASNET_VERBOSEENV") != nullptr;
}

void gasnett_envstr_display(const char* key, const char* val, int is_dflt) {
  if (!gasnett_verboseenv() || !first_showing(key)) return;
  std::fprintf(stderr, "ENV parameter: %s = %s%s\n", key, val == nullptr ? "*not set*" : val,
               is_dflt ? "   (default)" : "");
}
void gasnett_envint_display(const char* key, int64_t val, int is_dflt, int is_mem_size) {
  char text[64];
  gasnett_envstr_display(key, gasnett_format_number(val, text, sizeof text, is_mem_size), is_dflt);
}
void gasnett_envdbl_display(const char* key, double val, int is_dflt) {
  char text[64];
  std::snprintf(text, sizeof text, "%g", val);
  gasnett_envstr_display(key, text, is_dflt);
}

char* gasnett_getenv_withdefault(const char* key, const char* dflt) {
  char* set = gasnett_getenv(key);
  // The interface hands back the caller's own default as a char*.
  char* value = set != nullptr ? set : const_cast<char*>(dflt);
  gasnett_envstr_display(key, value, set == nullptr);
  return value;
}

int gasnett_getenv_yesno_withdefault(const char* key, int dflt) {
  const char* set = gasnett_getenv(key);
  const char* text = set != nullptr && *set != '\0' ? set : (dflt ? "YES" : "NO");
  const bool yes = is_one_of(text, {"y", "yes", "1"});
  if (!yes && !is_one_of(text, {"n", "no", "0"}))
    gasnett_fatalerror("%s is \"%s\", but must be yes or no", key, text);
  gasnett_envstr_display(key, yes ? "YES" : "NO", text != set);
  return yes;
}

int64_t gasnett_getenv_int_withdefault(const char* key, int64_t dflt, uint64_t mem_unit) {
  const char* set = gasnett_getenv(key);
  const bool given = set != nullptr && *set != '\0';
  const int64_t value = given ? gasnett_parse_int(set, mem_unit) : dflt;
  gasnett_envint_display(key, value, !given, mem_unit != 0);
  return value;
}

double gasnett_getenv_dbl_withdefault(const char* key, double dflt) {
  const char* set = gasnett_getenv(key);
  const bool given = set != nullptr && *set != '\0';
  double value = dflt;
  if (given && !parse_double(set, value))
    gasnett_fatalerror("%s is \"%s\", but must be a number or a fraction like 3/8", key, set);
  gasnett_envdbl_display(key, value, !given);
  return value;
}

}  // extern "C"
