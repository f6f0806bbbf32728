"""Weights in the form in which winners read them. They are prepared once, and again after they have changed."""

import threading

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class Prepared:
    """The prepared weights of the winners with one preparation, on one device."""

    def __init__(self, launcher, device):
        self.size, self.names, self.device = launcher.prepared_bytes, launcher.weights, device
        self.kept = {}
        self.lock = threading.Lock()

    def take(self, launcher, inputs, addresses, stream, is_capturing):
        """Returns the address of the prepared weights of a call, and prepares them if it has to. 0 if the winner prepares none.

        None during a capture for weights that are not prepared: what a graph prepares is not there before it is replayed.
        """
        if not self.size:
            return 0
        weights = [inputs[name] for name in self.names]
        owner = tuple(weight.data_ptr() for weight in weights)
        with self.lock:
            kept = self.kept.get(owner)
            if kept is not None and kept.is_of(weights) and kept.versions == versions(weights):
                return kept.memory.data_ptr()
            if is_capturing:
                return None
            if kept is None or not kept.is_of(weights):
                # Memory of weights that are gone is free for others.
                self.kept = {owner: one for owner, one in self.kept.items() if one.is_alive()}
                kept = Kept(weights, torch.empty(self.size, dtype=torch.uint8, device=self.device))
            # Changed weights are prepared in the same place, which graphs may have captured.
            launcher.prepare(addresses, kept.memory.data_ptr(), stream)
            # Other streams may take them at once.
            torch.cuda.current_stream(self.device).synchronize()
            kept.versions = versions(weights)
            self.kept[owner] = kept
            return kept.memory.data_ptr()


class Kept:
    """Weights, which it does not keep alive, and the memory with what was prepared of them."""

    def __init__(self, weights, memory):
        self.storages = [StorageWeakRef(weight.untyped_storage()) for weight in weights]
        self.memory, self.versions = memory, None

    def is_alive(self):
        return not any(storage.expired() for storage in self.storages)

    def is_of(self, weights):
        """Tells whether these are the weights, and not others at the same addresses."""
        same = (storage.cdata == weight.untyped_storage()._cdata for storage, weight in zip(self.storages, weights))
        return all(same) and self.is_alive()


def versions(weights):
    """Returns how often weights were changed in place, as far as torch counts."""
    return [None if weight.is_inference() else weight._version for weight in weights]
