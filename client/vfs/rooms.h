// The wiring of a Vfs: all of its rooms, and what each is given of the others (client/README.md, "Rooms"). Only vfs.cc and
// rooms.cc include this.
//
// Rooms below are given functions for what they need done above (the For... methods); rooms above have references to those below.
// So the order of the members is from below to above. `scope` is cancelled before any of them goes.
#pragma once

#include "client/io/stripe_io.h"
#include "client/io/stripe_pool.h"
#include "client/io/stripe_reader.h"
#include "client/session/meta_session.h"
#include "client/vfs/ahead_maker.h"
#include "client/vfs/atimes.h"
#include "client/vfs/attr_calls.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/calls.h"
#include "client/vfs/come_back.h"
#include "client/vfs/commits.h"
#include "client/vfs/file_locks.h"
#include "client/vfs/file_teller.h"
#include "client/vfs/file_calls.h"
#include "client/vfs/inodes.h"
#include "client/vfs/io_counters.h"
#include "client/vfs/kernel.h"
#include "client/vfs/kernel_side.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/last_known.h"
#include "client/vfs/lease_keeper.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/mappings.h"
#include "client/vfs/names.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/ranges.h"
#include "client/vfs/read_path.h"
#include "client/vfs/reads.h"
#include "client/vfs/recalls.h"
#include "client/vfs/residence.h"
#include "client/vfs/session_events.h"
#include "client/vfs/stripe_blocks.h"
#include "client/vfs/take_ups.h"
#include "client/vfs/turns.h"
#include "client/vfs/vfs_report.h"
#include "client/vfs/vfs_types.h"
#include "client/vfs/write_back.h"
#include "client/vfs/xattrs.h"
#include "common/exec/task.h"

namespace stria {

class VfsRooms {
 public:
  VfsRooms(const VfsOptions& options, MetaSession& session, StripeIo io, StripePool& pool, StripeReader& reader,
           KernelCache& kernel);
  ~VfsRooms();
  VfsRooms(const VfsRooms&) = delete;
  VfsRooms& operator=(const VfsRooms&) = delete;

  MetaSession& session() { return session_; }

 private:
  MetaSession& session_;

  InodesNeeds ForInodes();
  NodeCacheNeeds ForNodes();
  FileLocksNeeds ForLocks();
  LastKnownNeeds ForLastKnown();
  AtimesNeeds ForAtimes();
  FileTellerNeeds ForTeller();
  ResidenceNeeds ForResidence();
  MappingsNeeds ForMappings();
  WriteBackOptions OptionsOfWriteBack(const VfsOptions& options) const;
  WriteBackNeeds ForWriteBack();
  LeasesNeeds ForLeases();
  TakeUpsNeeds ForTakeUps();
  KernelViewNeeds ForKernelView();
  MadeAheadNeeds ForMadeAhead();
  ComeBackNeeds ForComeBack();
  CommitsNeeds ForCommits();
  RecallsNeeds ForRecalls();

 public:
  IoCounters counters;
  CallList calls;
  TaskScope scope;

  // ---- Rooms that own state.
  Turns turns;
  Leases leases;
  NodeCache nodes;
  Mappings mappings;
  Inodes inodes;
  FileLocks file_locks;
  LastKnown last_known;
  Atimes atimes;
  Residence residence;
  FileTeller teller;
  WriteBack write_back;
  StripeBlocks blocks;
  ReadPath read_path;
  KernelView kernel_view;
  MadeAhead made_ahead;
  TakeUps take_ups;

  // ---- Rooms of what is done with it.
  AttrView attrs;
  ComeBack come_back;
  Commits commits;
  LeaseKeeper keeper;
  AheadMaker ahead;
  AttrCalls attr_calls;
  Names names;
  FileCalls file_calls;
  Reads reads;
  Ranges ranges;
  Xattrs xattrs;
  Recalls recalls;

  // ---- Faces beside that of programs.
  SessionEvents session_events;
  KernelSide kernel_side;
  VfsReport report;
};

}  // namespace stria
