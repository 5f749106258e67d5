// Rooms that exist once the store is loaded: calls come before that, and are told that the server is not ready.
#pragma once

#include "meta/backup/archive_keeper.h"
#include "meta/events/event_room.h"
#include "meta/survey/survey.h"
#include "meta/upkeep/upkeep.h"

namespace stria {

struct LoadedRooms {
  Upkeep* upkeep = nullptr;
  Survey* survey = nullptr;
  ArchiveKeeper* archives = nullptr;
  EventRoom* events = nullptr;  // null: no events are kept
};

}  // namespace stria
