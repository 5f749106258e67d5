"""The present step and the time left: a line that is rewritten on a terminal, one now and then elsewhere."""

import sys
import time

LINES_APART_S = 15


def duration(seconds):
    seconds = max(0, round(seconds))
    return f"{seconds // 60}:{seconds % 60:02}"


class Progress:
    """`steps`: [(name, expected seconds)]. The rest is scaled by the time that the finished steps took."""

    def __init__(self, steps, out=None, clock=time.monotonic):
        self.steps, self.out, self.clock = list(steps), out or sys.stderr, clock
        self.began = clock()
        self.at = -1         # the step that runs
        self.part = 0.0      # of it
        self.shown = None    # when
        self.width = 0       # of what stands on the terminal's line

    def rest(self):
        """Seconds left, as far as known now."""
        planned = sum(s for _, s in self.steps)
        if self.at < 0 or planned <= 0:
            return planned
        done = sum(s for _, s in self.steps[:self.at]) + self.part * self.steps[self.at][1]
        if done < 0.02 * planned:  # too little to tell how fast this machine is
            return planned - done
        return (self.clock() - self.began) / done * (planned - done)

    def begin(self, name):
        names = [n for n, _ in self.steps]
        self.at, self.part = names.index(name, max(self.at, 0)), 0.0
        self.show(True)

    def tell(self, part):
        """A part of the step, 0 to 1, is done."""
        self.part = min(max(part, self.part), 1.0)
        self.show(False)

    def line(self):
        return (f"[{duration(self.clock() - self.began)}] {self.at + 1}/{len(self.steps)} {self.steps[self.at][0]}"
                f" {self.part:4.0%}, {duration(self.rest())} left")

    def show(self, fresh):
        terminal, now = self.out.isatty(), self.clock()
        if self.shown is not None and not fresh and now - self.shown < (0.2 if terminal else LINES_APART_S):
            return
        self.shown = now
        text = self.line()
        if terminal:
            self.out.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            self.out.write(text + "\n")
        self.out.flush()

    def say(self, text):
        """A line of its own."""
        if self.out.isatty() and self.width:
            self.out.write("\r" + " " * self.width + "\r")
            self.width = 0
        self.out.write(text + "\n")
        self.out.flush()

    def end(self):
        if self.out.isatty() and self.width:
            self.out.write("\n")
            self.width = 0
