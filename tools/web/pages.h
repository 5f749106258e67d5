// What is served at which path.
#pragma once

#include <cstdint>
#include <string>

#include "tools/web/board.h"
#include "tools/web/http_server.h"

namespace stria::web {

// now_ms: wall clock. Any thread.
WebReply PageAt(const std::string& path, Board* board, int64_t now_ms);

}  // namespace stria::web
