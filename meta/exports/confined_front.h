// The services of a metadata server as they are served: with confined sessions held to their exports. Whoever dispatches to a
// MetaServer puts this in between.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "meta/exports/confined_meta.h"
#include "meta/exports/confined_tree.h"

namespace stria {

class ConfinedFront {
 public:
  // All of them outlive it. `store` is asked for when a confined session calls.
  ConfinedFront(MetaService* meta, AdminService* admin, const ConfinedSessions* sessions, std::function<MetaStore*()> store,
                Confinement::Denied denied = nullptr)
      : tree_(std::move(store)),
        confinement_(sessions, &tree_, std::move(denied)),
        meta_(meta, &confinement_),
        admin_(admin, &confinement_) {}
  ConfinedFront(const ConfinedFront&) = delete;
  ConfinedFront& operator=(const ConfinedFront&) = delete;

  MetaService* meta() { return &meta_; }
  AdminService* admin() { return &admin_; }
  uint64_t denials() const { return confinement_.denials(); }

 private:
  StoreTree tree_;
  Confinement confinement_;
  ConfinedMeta meta_;
  ConfinedAdmin admin_;
};

}  // namespace stria
