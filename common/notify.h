// What systemd is told, if it started the program and listens ($NOTIFY_SOCKET). Any thread. If it does not read what it was told, a
// call gives up: TellStatus and TellAlive at once, the others within two seconds.
#pragma once

#include <cstdint>
#include <string>

namespace stria {

// It serves; `status` is what `systemctl status` shows, "" to leave that as it is.
void TellReady(const std::string& status);
void TellStatus(const std::string& status);
// It reads its settings again, until TellReady.
void TellReloading();
void TellStopping();

// How often TellAlive is due at least; 0 if nobody waits for it.
int64_t AlivePeriodNs();
// To be called by what must not stand still: systemd ends and starts a program that has not said so for long.
void TellAlive();

}  // namespace stria
