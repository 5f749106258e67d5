// The one compiler Stria builds with. gcc 12 destroys temporaries of co_await expressions twice, so
// a build with it would corrupt memory silently; refusing is kinder.
#pragma once

#if !defined(__clang__) || __clang_major__ < 16
#error "Stria builds with clang-16 or later: apt-get install clang-16 and build with bazel (see .bazelrc)."
#endif
