// While it lives, the count is one higher.
#pragma once

#include <cstdint>

namespace stria {

class Counted {
 public:
  explicit Counted(uint32_t* count) : count_(count) { ++*count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*count_; }

 private:
  uint32_t* const count_;
};

}  // namespace stria
