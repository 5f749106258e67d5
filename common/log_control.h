// A daemon's handling of its log at a signal.
#pragma once

namespace stria {

// The file at the log's path, be it a new one: logrotate has moved the former. Any thread, after InitLog.
void ReopenLog();

}  // namespace stria
