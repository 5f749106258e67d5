// The field list of the header of calls that are not about files. Only the wire_*.cc files include this.
#pragma once

#include "api/data_api.h"
#include "proto/data.pb.h"
#include "proto/wire_types.h"

namespace stria::wire {

WIRE_MESSAGE(DataHeader) {
  F(protocol); F(cluster); F(incarnation); F(timeout_ns); F(trace_id); F(background); F(oldest_protocol); F(seen_term); F(seen_proof);
}

}  // namespace stria::wire
