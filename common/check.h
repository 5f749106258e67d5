// CHECK(condition, message): a programmer's error ends the process with file, line and message.
// Never for bad input, bad disks or bad peers: those are Errors.
#pragma once

#include <string_view>

#include "common/compiler.h"

namespace stria {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, std::string_view message);
}  // namespace stria

#define CHECK_1(cond) CHECK_2(cond, "")
#define CHECK_2(cond, message)                                                \
  do {                                                                        \
    if (!(cond)) [[unlikely]]                                                 \
      ::stria::CheckFailed(__FILE__, __LINE__, #cond, message);               \
  } while (0)
#define CHECK_PICK(_1, _2, NAME, ...) NAME
#define CHECK(...) CHECK_PICK(__VA_ARGS__, CHECK_2, CHECK_1)(__VA_ARGS__)
