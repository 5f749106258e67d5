// Stream sockets by address: "host:port", "[v6]:port", "unix:/path".
#pragma once

#include <cstdint>
#include <string>

#include "common/error.h"

namespace stria {

inline constexpr char kUnixPrefix[] = "unix:";  // of an address that is a path

// A listening, non-blocking socket; `bound` gets the address with its port. kUnavailable with a sentence. The file of a Unix socket has `mode` before
// anybody can connect.
Result<int> ListenOn(const std::string& address, std::string* bound, uint32_t mode = 0600);

// A connected, non-blocking socket, within timeout_ms. Blocks (for names, perhaps longer).
Result<int> ConnectTo(const std::string& address, int timeout_ms);

// For a connected TCP socket: no delay of small messages, dead peers are noticed in about 15 s.
void TuneSocket(int fd);

}  // namespace stria
