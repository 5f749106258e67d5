// How a machine comes to be of a cluster by a token: what `stria join` and `stria dev` do alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "trust/credentials.h"
#include "trust/join_token.h"

namespace stria::cli {

// As AskToJoin of proto/join_client.h: blocks. Any thread.
using AskToJoinCall = std::function<Result<std::string>(const std::string& address, const Sha256Hash& authority,
                                                        const std::function<std::string(std::string_view binding)>& make, int64_t timeout_ns)>;

// Host and port of the metadata server to ask.
std::string AddressOf(const JoinToken& token);
// One request: the certificate for `key`, and the authorities to believe. `name`: of this machine; "": as the token says. Errors: those of
// the call (kAccess: refused, with the server's sentence), and kBadRequest or kWrongCluster where the answer is not good.
// `member`: gets what a metadata server is given besides (DecodeMemberSecrets); "" for others.
Result<Credentials> RequestToJoin(const AskToJoinCall& ask, const JoinToken& token, const PrivateKey& key, const std::string& name, int64_t timeout_ns,
                                  std::string* member = nullptr);

}  // namespace stria::cli
