// Settings of the daemons' allocator (jemalloc): payload in large pages (docs/performance-notes.md, "Large pages"); few arenas,
// because each keeps some freed memory; and a few checksum blocks of payload at hand for each thread (common/buffer.h). Use it
// once in a program that links //third_party:jemalloc, outside of all namespaces.
#pragma once

// `more`: further options of jemalloc, each behind a comma; a string literal.
#define STRIA_ALLOCATOR_OPTIONS(more)                                                                 \
  extern "C" {                                                                                        \
  extern const char* const malloc_conf;                                                               \
  const char* const malloc_conf = "thp:always,narenas:4,tcache_max:81920,tcache_nslots_large:8" more; \
  }
