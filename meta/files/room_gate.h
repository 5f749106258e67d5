// What may be written when the metadata's disk is full: what frees space, and what was acknowledged before.
#pragma once

#include "common/error.h"
#include "meta/files/reply_codec.h"
#include "meta/store/room.h"

namespace stria {

// `room` may be null: there is enough.
inline bool RoomToGrow(MetaRoom* room) { return room == nullptr || room->Level() < RoomLevel::kFull; }

// ok(): an operation of this kind may be carried out.
inline Error CheckRoom(MetaRoom* room, OpKind kind) {
  if (RoomToGrow(room)) return Error();
  const bool none = room->Level() == RoomLevel::kNone;
  switch (kind) {
    case OpKind::kSetAttr:
    case OpKind::kOpen:
    case OpKind::kUnlink:
    case OpKind::kRmdir:
    case OpKind::kRename:
    case OpKind::kRemoveXattr:
    case OpKind::kCommit:  // that adds something is asked about as kClone
      if (!none) return Error();
      break;
    case OpKind::kLock: return Error();  // in memory
    case OpKind::kMakeNode:
    case OpKind::kLink:
    case OpKind::kSetXattr:
    case OpKind::kSetLayout:
    case OpKind::kAllocate:
    case OpKind::kClone: break;
  }
  return Error(FsError::kNoSpace, none ? "the metadata's disk is full, and nothing can be changed; stria status says more"
                                       : "the metadata's disk is full: only reading and deleting go on; stria status says more");
}

}  // namespace stria
