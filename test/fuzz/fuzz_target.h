// The entry point libFuzzer and the bounded tests share. Always 0; a bug is a crash or a sanitizer's report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace stria {

// Inputs that a decoder took, so far. Each target that has samples counts, and its test sees that its samples are taken: what
// is refused at the first byte tests nothing. Defined by the target.
extern uint64_t fuzz_taken;

// What holds of everything that was taken.
inline void Must(bool so) {
  if (!so) std::abort();
}

}  // namespace stria
