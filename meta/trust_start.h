// What a metadata server says of itself where it starts to admit others: its certificates, and where others reach it.
#pragma once

#include <string>
#include <vector>

#include "trust/credentials.h"

namespace stria {

// Of this machine, to be kept with those that are given to others: the server's own, and the first admin's in `directory`/admin, as
// long as it is where it was made. Blocks.
std::vector<Certificate> OwnCertificates(const Credentials& own, const std::string& directory);

// The server as its own peer, which asks for another certificate.
Peer PeerOfOwn(const Credentials& own);

// Of this machine; "" if it has none.
std::string HostName();

// host:port for tokens to join with: as it is bound, or where that is everywhere, by the name of this machine.
std::string AddressForOthers(const std::string& bound, const std::string& host_name);

}  // namespace stria
