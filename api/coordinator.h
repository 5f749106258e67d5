// The coordinator: one value outside the cluster, changed by compare-and-swap, by which metadata servers agree on who serves. It is
// needed only to change roles; nothing of a client's call waits for it. No lease, no lock, no watch, no deletion: whoever implements
// this with another engine has nothing more to give (meta/replica/README.md).
//
// What a caller may conclude:
//  - From a value that Read or Swap gives: it was there at one moment between the call and its answer (linearizable). It may be
//    another by now. An answer that comes late may be older than one that the caller already has: values carry a version for that.
//  - From a Swap that gives `value`: it is carried out, by this call or an earlier one of the same two values.
//  - From a Swap, or a later Read, that gives anything but `old` and `value`: this Swap will never be carried out from now on. It may
//    have been carried out and then replaced.
//  - From a Swap, or a later Read, that gives `old`: it was not carried out so far. It may be, later. Only the same Swap again, until
//    one of the two cases above shows, ends that.
//  - From an error of Read: nothing.
//  - From an error of Swap, of whatever code, and from cancelling one: nothing. It may have been carried out, it may be carried out
//    later, also after the caller's process has ended.
// All of that needs that no value ever comes twice: the caller puts a fresh nonce into each.
//
// Errors: kUnavailable, it was not reached or has no majority; kDeadline, no answer in time; kAccess, it does not let this program in,
// or its certificate is not the expected one; kCorrupt, the answer is none; kBadRequest, the value is too large.
// Executor's thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "common/error.h"
#include "common/exec/task.h"

namespace stria {

inline constexpr size_t kMaxCoordinatorValueBytes = 64 * 1024;

// Nullopt: nobody has written one yet.
using CoordinatorValue = std::optional<std::string>;

class Coordinator {
 public:
  virtual ~Coordinator() = default;
  // The present value, never one from before the call.
  virtual Task<Result<CoordinatorValue>> Read() = 0;
  // Puts `value` there if exactly `old` is there, byte by byte. Gives what is there afterwards.
  virtual Task<Result<CoordinatorValue>> Swap(CoordinatorValue old, std::string value) = 0;
};

}  // namespace stria
