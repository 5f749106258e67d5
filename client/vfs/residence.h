// Room: what user.stria.* say (virtual_xattr.h): where a file's bytes are, and where those that were read came from; and
// what setting a layout does.
//
// Owns: the tallies of reads (ReadTally), of files in use and of up to kMaxTallies others.
//
// Invariant: a file has one tally as long as somebody has a pointer to it.
//
// Called by: Xattrs; the wiring, which gives each inode its tally. Calls: the metadata server, and through ResidenceNeeds
// what commits and shows a file. Knows no other room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/io/stripe_reader.h"
#include "client/session/meta_session.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

struct ResidenceNeeds {
  // What is dirty of it is committed: bytes in memory are nowhere yet.
  std::function<Task<Result<void>>(InodeId)> commit;
  std::function<Task<Result<Attr>>(Caller, InodeId)> stat;
  // Notices: a change of ours, of which the server does not tell us, may have been made; the layout is this.
  std::function<void(InodeId)> changed;
  std::function<void(InodeId, const Layout&)> layout_is;
};

class Residence {
 public:
  // All of them outlive it.
  Residence(ResidenceNeeds needs, MetaSession& session, const DataPeers& peers, const StripeReader& reader)
      : needs_(std::move(needs)), session_(session), peers_(peers), reader_(reader) {}
  Residence(const Residence&) = delete;
  Residence& operator=(const Residence&) = delete;

  std::shared_ptr<ReadTally> TallyOf(InodeId ino);
  // REQUIRES: IsVirtualXattr(name). kNoData if there is no such attribute.
  Task<Result<std::string>> Get(Caller who, InodeId ino, std::string name);
  Task<Result<void>> SetLayout(Caller who, InodeId ino, std::string text);

 private:
  struct Where;
  Task<Result<Where>> WhereIs(Caller who, InodeId ino, uint64_t offset, uint64_t length, size_t max_rows);
  Task<Result<std::string>> OfFile(Caller who, InodeId ino, std::string name);
  Task<Result<std::string>> OfTree(Caller who, InodeId ino, bool bytes);

  const ResidenceNeeds needs_;
  MetaSession& session_;
  const DataPeers& peers_;
  const StripeReader& reader_;
  std::map<InodeId, std::shared_ptr<ReadTally>> tallies_;
};

}  // namespace stria
