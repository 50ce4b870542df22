"""Live maps: keys and values that several programs have alike."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from dataclasses import dataclass
from types import TracebackType
from typing import Union

from . import _native
from ._errors import SHUT_DOWN, ClosedError, TimedOutError
from ._waiting import readable

#: Changes that are taken at once, unless said otherwise.
BATCH = 1000
#: Number of a time that was too short.
_TIMED_OUT = 1203


@dataclass(frozen=True)
class Change:
    """A change of a live map: its key has this value now, or is gone (``None``)."""

    key: str
    value: bytes | None


@dataclass(frozen=True)
class Restart:
    """Entries of a live map went unseen: those that follow are all there are."""


MapChange = Union[Change, Restart]


class LiveMap(MutableMapping[str, bytes]):
    """A map of texts to bytes that several programs have alike: ``node.live_map("prices")``.

    Its state comes after it was opened: ``with`` and ``async with`` wait for that, at most
    :attr:`PATIENCE` seconds long, and close the map at the end. Before, and while it binds anew, writing
    raises :class:`NotLiveError`, and reading gives what it has.

    A write is in this map at once, and in the others when it comes; ``node.flush()`` says when it is in
    all. Of several writes to a key the last one stays everywhere. One that was made just before this map
    bound anew may be lost, here as well.

    Any number of threads may use it.
    """

    #: Seconds that ``with`` and ``async with`` wait for the state.
    PATIENCE = 90.0

    def __init__(self, native: _native.LiveMap) -> None:
        self._native = native

    # Its state ---------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Whether its state is that of the others, and follows every change."""
        return self._native.live

    def wait_live(self, timeout: float | None = PATIENCE) -> None:
        """Waits until it is live. Raises :class:`TimedOutError`, or what it has ended by."""
        for slice in _slices(timeout):
            if self._native.wait_live(slice):
                return
        raise _not_live(timeout)

    async def _wait_live(self) -> None:
        for slice in _slices(self.PATIENCE):
            if await asyncio.to_thread(self._native.wait_live, slice):
                return
        raise _not_live(self.PATIENCE)

    # Entries -----------------------------------------------------------------

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

    # Changes -----------------------------------------------------------------

    def changes(self) -> Changes:
        """The map as it changes, for one loop: entries that are there first, then what changes, its own
        writes as well."""
        return Changes(self._native.changes())

    # Itself ------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        """Its counters since it was opened, as the guide to replicas describes them."""
        return json.loads(self._native.stats())

    def close(self) -> None:
        """Leaves the map; loops over its changes end. The other programs keep it."""
        self._native.close()

    def __enter__(self) -> LiveMap:
        try:
            self.wait_live()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> LiveMap:
        try:
            await self._wait_live()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<qsm.LiveMap of {len(self)} entries>"


class Changes:
    """Changes of a live map: ``for change in changes`` in threads, ``async for`` in tasks. The loop ends
    when the map is closed, or this process shuts the node down.

    It costs no memory, however slowly it is read: of several changes to a key that were not read the last
    one is given. If removals were forgotten meanwhile, a :class:`Restart` says so.

    One loop, thread or task reads it at a time.
    """

    def __init__(self, native: _native.Changes) -> None:
        self._native = native

    def take(self, most: int = BATCH) -> list[MapChange] | None:
        """What has changed, at most ``most`` entries, without waiting; ``None`` once the map was closed."""
        taken = self._native.take(most)
        return None if taken is None else [_change(*change) for change in taken]

    def receive(self, timeout: float | None = None) -> list[MapChange] | None:
        """As :meth:`take`; if nothing has changed, waits at most so many seconds, or for ever. Empty if
        nothing did."""
        begun = time.monotonic()
        while (taken := self.take()) == []:
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - begun))
            if not self._native.wait(left):
                return []
        return taken

    def fileno(self) -> int:
        """A descriptor for ``select`` and its like: readable while there is something to take, and now
        and then without."""
        return self._native.fileno()

    def __iter__(self) -> Iterator[MapChange]:
        try:
            while (taken := self.receive()) is not None:
                yield from taken
        except ClosedError as end:
            if end.code != SHUT_DOWN:
                raise

    async def __aiter__(self) -> AsyncIterator[MapChange]:
        try:
            while (taken := self.take()) is not None:
                for change in taken:
                    yield change
                if not taken:
                    await readable(self.fileno())
        except ClosedError as end:
            if end.code != SHUT_DOWN:
                raise


def _change(key: str | None, value: bytes | None) -> MapChange:
    return Restart() if key is None else Change(key, value)


def _slices(timeout: float | None) -> Iterator[float]:
    """Times to wait, one after the other, so that Ctrl-C and the end of a task end it."""
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"{timeout} is no time; give seconds from 0 on, or None for ever")
    begun = time.monotonic()
    left = timeout
    while True:
        yield 0.2 if left is None else min(0.2, left)
        if timeout is not None:
            left = timeout - (time.monotonic() - begun)
            if left <= 0:
                return


def _not_live(timeout: float | None) -> TimedOutError:
    text = f"the map is not live after {timeout} s; see `qsm nodes`, or allow more time"
    return TimedOutError(_TIMED_OUT, text)
