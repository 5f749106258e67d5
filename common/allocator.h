// How the daemons' allocator (jemalloc) is set: payload in large pages (docs/performance.md, "Large pages"), and few arenas,
// as each holds some of what was freed. Once in a program that links //third_party:jemalloc, outside of all namespaces.
#pragma once

// `more`: further options of jemalloc, each behind a comma; a string literal.
#define STRIA_ALLOCATOR_OPTIONS(more)                                                \
  extern "C" {                                                                       \
  extern const char* const malloc_conf;                                              \
  const char* const malloc_conf = "thp:always,cache_oblivious:false,narenas:4" more; \
  }
