// Another certificate for a program that has one: when it is due, what may come for it, and how it takes its place in the files of a
// directory (credentials.h). What daemons do by themselves (proto/secured_ends.h), and a command where no daemon is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trust/credentials.h"

namespace stria {

// At two thirds of its life. And when another authority signs, which is the last of those that the cluster believes: the former one can go
// when all have certificates of the new one. `overlap_s`: for so long from the making of the new one the former one's does still.
bool RenewalIsDue(const Certificate& own, const Bundle& believed, int64_t now_s, int64_t overlap_s = 0);

// What came (PEM) for a request with the key of `own`: it is of the same identity and key, and one of `believed` has signed it. kBadRequest.
Result<Certificate> AcceptRenewal(const Credentials& own, const Bundle& believed, std::string_view pem);

// It takes the place of `own`. The bundle gets those of `believed` first, besides those that it has, so that the files are good at any
// moment, also after a power cut. Durable on return. Blocks.
Result<void> StoreRenewal(const std::string& directory, const Credentials& own, const Bundle& believed, const Certificate& certificate);

// Keeps what the cluster believes and does not, where that is another than in `own`, which is what the files say. A bundle that would leave
// `own` without an authority is left out, and waits until that is renewed; revoked numbers are kept in any case. Durable on return. Blocks.
Result<void> StoreBelieved(const std::string& directory, const Credentials& own, const Bundle& believed, const Revoked& revoked);

}  // namespace stria
