// Room: files made ahead. The metadata server is told of them with their first bytes.
//
// Of a directory that this client has to itself (LeaseMode::kExclusive of its inode, OpenReply::alone), and knows whole,
// it knows what the server would answer to a Create: so it makes the file here, with a number that it was given
// beforehand, and tells the server with the file's first commit (CommitRequest::make): one call instead of two, and
// one transaction. Nobody notices: before anybody else reads or changes a name there the server recalls the directory,
// and what was made is told before that is answered.
//
// What its maker changes of such a file (mode, owners, times) is told with it (MadeFile::set): who unpacks an archive
// or copies a file sets them between the last byte and the close.
//
// Before a call of ours names such a file, or its directory, the server is told (TellBefore, which the session asks
// before each call). If it cannot be made after all, its handles give the reason (InodeMade::lost).
//
// Owns: files that were made here and that the server does not surely know (InodeMade, the room's part of an inode), numbers
// for more of them, and the directories in which none may be made now (Pause).
//
// Invariants:
//  - of a file one call tells the server at a time; as long as there is one, or the server does not know the file, the inode is
//    in use;
//  - the server is told soon of what is neither closed nor synced: a crash of this client loses what it does not know;
//  - numbers are used within the session and the term of the server that gave them, and each once.
// That the directory is held alone and known whole the wiring looks at, before each file.
//
// Called by: AheadMaker, Commits; FileCalls (NoteMade); calls that change a directory (Pause) or need the server to know what was
// made in it (Names, Reads); SessionEvents (TellBefore); ComeBack (LoseAll); AttrView and LeaseKeeper, which look. Calls: what
// tells the server, through MadeAheadNeeds. Knows no other room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "client/session/caller.h"
#include "client/vfs/io_counters.h"
#include "common/exec/task.h"

namespace stria {

// Only MadeAhead changes it.
class InodeMade {
 public:
  explicit InodeMade(InodeId ino) : ino_(ino) {}
  InodeMade(const InodeMade&) = delete;
  InodeMade& operator=(const InodeMade&) = delete;

  InodeId ino() const { return ino_; }
  // What the server is to be told; nullopt: it knows the file.
  const std::optional<MadeFile>& file() const { return file_; }
  const Caller& maker() const { return maker_; }
  bool telling() const { return telling_; }
  bool tried_to_tell() const { return tried_; }  // the server may have made it as it was then
  bool in_use() const { return file_ || telling_; }
  // Why it could not be made.
  const Error& lost() const { return lost_; }

 private:
  friend class MadeAhead;  // the same room
  const InodeId ino_;
  std::optional<MadeFile> file_;
  Caller maker_;
  int64_t since_ns_ = 0;
  bool telling_ = false;
  bool tried_ = false;
  Event told_;        // pulsed when telling ended
  Error tell_error_;  // if that failed, and may be tried again
  Error lost_;
  uint64_t era_ = 0;  // one more each time that the session lost what it had of the inode
  Error loss_;        // why, the last time
};
// Keeps the inode that it is a part of.
using InodeMadePtr = std::shared_ptr<InodeMade>;

struct MadeAheadNeeds {
  // Generation of the session, and term of the server.
  std::function<std::pair<uint64_t, uint64_t>()> now_is;
  // Sends a commit that does nothing but make it: BeginTelling, then Answered.
  std::function<Task<void>(InodeMadePtr, bool durable)> tell;
  // Notices. It could not be made, and is nowhere now.
  std::function<void(const InodeMadePtr&, const MadeFile&)> lost;
  // The inode may not be in use any more.
  std::function<void(const InodeMadePtr&)> maybe_unused;
  // Something that may have changed the directory (0: any) has ended.
  std::function<void(InodeId dir)> pause_ended;
};

class MadeAhead {
 public:
  static constexpr uint32_t kNumbersAtOnce = 64;

  // `counters` and `scope` outlive it; `scope` is cancelled before it goes.
  MadeAhead(bool enabled, MadeAheadNeeds needs, IoCounters& counters, TaskScope& scope)
      : enabled_(enabled), needs_(std::move(needs)), counters_(counters), scope_(scope) {}
  MadeAhead(const MadeAhead&) = delete;
  MadeAhead& operator=(const MadeAhead&) = delete;

  // Without access control lists. What is not sure the server decides.
  static bool SurelyMayCreate(const Caller& who, const Attr& dir);

  // ---- Making them.
  // Whether the next files in a directory are to be made ahead is decided by the second one made there in a row.
  void NoteMade(InodeId dir) { last_made_in_ = dir; }
  bool Wants(InodeId dir) const { return enabled_ && last_made_in_ == dir; }
  bool NumbersLeft();
  // `sets`: the server can be told of changes of a file with the file.
  void TakeNumbers(InodeId first, uint64_t count, std::string proof, bool sets);
  void ForgetNumbers() { numbers_.clear(); }
  // One may be made in the directory, if the wiring holds it; and there is room for one.
  bool MayMakeIn(InodeId dir) const;
  bool HasRoom();
  struct Number {
    InodeId ino;
    std::string proof;
  };
  Number TakeNumber();  // REQUIRES: HasRoom
  void Add(const InodeMadePtr& of, MadeFile file, const Caller& maker);

  // ---- Until the server knows them.
  bool empty() const { return files_.empty(); }
  // The times and the number of files that a directory shows are more than the server says.
  struct In {
    std::map<InodeId, InodeMadePtr> files;
    int64_t last_ns = 0;  // the directory's times, which grow
  };
  const In* Unknown(InodeId dir) const;  // null: none
  // `who` may change mode, owner and times of it to these, and nothing else comes of that; and they can be told with it.
  bool MayChange(const InodeMade& of, const Caller& who, const Attr& file, std::optional<uint32_t> mode,
                 std::optional<uint32_t> uid, std::optional<uint32_t> gid) const;
  // What is told with it, to be changed now. REQUIRES: MayChange
  MadeFile::Set& Change(InodeMade& of);

  // ---- Telling the server.
  // The next commit of it makes it. REQUIRES: InodeMade::file
  MadeFile BeginTelling(InodeMade& of);
  // What came of that. `bare`: the commit did nothing but make it.
  enum class Outcome : uint8_t { kGone, kKnown, kAgain, kLost };
  Outcome Answered(const InodeMadePtr& of, const Error& error, bool bare);
  // Ok also if the server knows it already; InodeMade::lost if it cannot be made.
  Task<Result<void>> Tell(InodeMadePtr of, bool durable);
  // These files, and those in these directories; null: there are none.
  std::optional<Task<Result<void>>> TellBefore(const std::array<InodeId, 2>& named);
  // Before that directory goes; nullopt: in all. Under a Pause.
  Task<Result<void>> TellIn(std::optional<InodeId> dir);
  // The session lost all that it had of the inode: nobody will hear of it.
  void LoseAll(InodeMade& of, Error loss);

  // While it lives nothing is made ahead in the directory. 0: it is none; nullopt: in any, as it is not known which.
  class Pause {
   public:
    Pause(MadeAhead* of, std::optional<InodeId> dir);
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();

   private:
    MadeAhead* const of_;
    const std::optional<InodeId> dir_;
  };

 private:
  void Known(InodeMade& of);  // by the server; or nobody's any more
  void EndTelling(InodeMade& of);
  Task<void> TellNow(InodeMadePtr of, bool durable);  // REQUIRES: telling_ was set for it
  Task<Result<void>> TellAll(std::vector<InodeMadePtr> files);  // at once
  Task<void> TellOld();  // of what is neither closed nor synced, while there is anything

  const bool enabled_;
  const MadeAheadNeeds needs_;
  IoCounters& counters_;  // of these made_ahead and set_ahead
  TaskScope& scope_;
  std::map<InodeId, In> dirs_;
  std::map<InodeId, InodeMadePtr> files_;  // in all of them
  bool tells_old_ = false;
  std::map<InodeId, size_t> pauses_;  // 0: of all directories
  InodeId last_made_in_;
  bool sets_ = false;
  struct Numbers {
    uint64_t next = 0, end = 0;
    std::string proof;
  };
  std::deque<Numbers> numbers_;
  std::pair<uint64_t, uint64_t> numbers_of_;  // MadeAheadNeeds::now_is
};

}  // namespace stria
