// The directory of a metadata store: DIR/superblock (common/superblock.h), DIR/kv (RocksDB) and DIR/trust (trust_dir.h). Blocking
// calls of the operating system; for the main program.
#pragma once

#include <string>

#include "common/error.h"
#include "common/superblock.h"

namespace stria {

inline std::string MetaStorePath(const std::string& dir) { return dir + "/kv"; }

inline std::string TrustDirOf(const std::string& dir) { return dir + "/trust"; }

enum class DataDirState { kEmpty, kStore };
// kEmpty also if it does not exist, or holds nothing but DIR/trust: that of a store to be restored, or of an interrupted --format.
// kNotEmpty: it has files, and no superblock among them.
Result<DataDirState> LookAtDataDir(const std::string& dir);
// Makes the directory, for its owner only.
Result<void> PrepareDataDir(const std::string& dir);
// Durable on return: the file and its name.
Result<void> WriteDataDir(const std::string& dir, const Superblock& super);
// kCorrupt, kVersion, kInval (of another kind); kRoFs if this release may only read it.
Result<Superblock> ReadDataDir(const std::string& dir);
// Whether the store of that superblock may be served: `as_member`, as one of several ([ha]), or alone. kAccess with what to do.
Result<void> CheckServedAs(const Superblock& super, bool as_member, const std::string& dir);
bool IsOneOfSeveral(const Superblock& super);
// Notes that the store is one of several from now on, or alone. Durable on return.
Result<void> NoteOneOfSeveral(const std::string& dir, bool is_member);

}  // namespace stria
