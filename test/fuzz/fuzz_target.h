// The entry point libFuzzer and the bounded tests share. Always 0; a bug is a crash or a sanitizer's report.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
