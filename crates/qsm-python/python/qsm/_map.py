"""Live maps: keys and values that several programs have alike."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from dataclasses import dataclass
from typing import Union

from ._native import Changes as NativeChanges
from ._native import LiveMap as NativeLiveMap
from ._object import BATCH, Followed, LiveObject


@dataclass(frozen=True)
class Change:
    """A change of a live map: its key has this value now, or is gone (``None``)."""

    key: str
    value: bytes | None


@dataclass(frozen=True)
class Restart:
    """Entries of a live map went unseen: those that follow are all there are."""


MapChange = Union[Change, Restart]


class LiveMap(LiveObject, MutableMapping[str, bytes]):
    """A map of texts to bytes that several programs have alike: ``node.live_map("prices")``.

    Its state comes after it was opened: ``with`` and ``async with`` wait for that, at most
    :attr:`PATIENCE` seconds long, and close the map at the end. Before, and while it binds anew, writing
    raises :class:`NotLiveError`, and reading gives what it has.

    A write is in this map at once, and in the others when it comes; ``node.flush()`` says when it is in
    all. Of several writes to a key the last one stays everywhere. One that was made just before this map
    bound anew may be lost, here as well.

    Any number of threads may use it.
    """

    _native: NativeLiveMap

    def __init__(self, native: NativeLiveMap) -> None:
        self._native = native

    def __getitem__(self, key: str) -> bytes:
        value = self._native.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def text(self, key: str) -> str | None:
        """The value of a key as text (UTF-8); ``None`` if it has none."""
        value = self._native.get(key)
        return None if value is None else value.decode()

    def __setitem__(self, key: str, value: object) -> None:
        """Sets a value: a text (as UTF-8), or any object with the buffer protocol, which is copied."""
        self._native.set(key, value.encode() if isinstance(value, str) else value)

    def __delitem__(self, key: str) -> None:
        self[key]
        self._native.remove(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._native.get(key) is not None

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[str]:
        """Keys of one moment, in order."""
        return iter(self._native.keys())

    def snapshot(self) -> dict[str, bytes]:
        """All entries of one moment, in the order of their keys."""
        return dict(self._native.items())

    # Of one moment: an entry that goes meanwhile would be missing by its key.

    def keys(self) -> KeysView[str]:
        """Keys of one moment, in order."""
        return self.snapshot().keys()

    def values(self) -> ValuesView[bytes]:
        """Values of one moment, in the order of their keys."""
        return self.snapshot().values()

    def items(self) -> ItemsView[str, bytes]:
        """Entries of one moment, in the order of their keys."""
        return self.snapshot().items()

    def changes(self) -> Changes:
        """The map as it changes, for one loop: entries that are there first, then what changes, its own
        writes as well."""
        return Changes(self._native.changes())

    def __repr__(self) -> str:
        return f"<qsm.LiveMap of {len(self)} entries>"


class Changes(Followed[MapChange]):
    """Changes of a live map: ``for change in changes`` in threads, ``async for`` in tasks. The loop ends
    when the map is closed, or this process shuts the node down.

    It costs no memory, however slowly it is read: of several changes to a key that were not read the last
    one is given. If removals were forgotten meanwhile, a :class:`Restart` says so.
    """

    _native: NativeChanges

    def __init__(self, native: NativeChanges) -> None:
        self._native = native

    def take(self, most: int = BATCH) -> list[MapChange] | None:
        """What has changed, at most ``most`` entries, without waiting; ``None`` once the map was closed."""
        taken = self._native.take(most)
        return None if taken is None else [_change(*change) for change in taken]


def _change(key: str | None, value: bytes | None) -> MapChange:
    return Restart() if key is None else Change(key, value)
