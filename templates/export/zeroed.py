"""Zeroed scratch memory for winners. Their kernels leave the memory zeroed, so it is zeroed only once."""

import threading

from . import driver

# Blocks to have in reserve, because nothing can be allocated and zeroed at no cost while a graph is captured.
RESERVE = 64
RESERVE_BYTES = 1 << 20


class Zeroed:
    """Blocks of one size on one device. A stream has its own, and so has each stream of each captured graph."""

    def __init__(self, size):
        self.size = size
        self.spare, self.taken = [], {}
        self.lock = threading.Lock()

    def fill(self):
        """Allocates a reserve, if there is none left. Must not be called during a capture."""
        if self.size and not self.spare:
            count = max(1, min(RESERVE, RESERVE_BYTES // self.size))
            begin = driver.allocate_zeroed(count * self.size)
            self.spare = [begin + place * self.size for place in range(count)]

    def take(self, stream, is_capturing):
        """Returns the block of a stream; None if the reserve is used up. Does not allocate during a capture."""
        if not self.size:
            return 0
        owner = stream, driver.capture(stream) if is_capturing else 0
        with self.lock:
            if owner not in self.taken:
                if not is_capturing:
                    self.fill()
                if not self.spare:
                    return None
                self.taken[owner] = self.spare.pop()
            return self.taken[owner]
