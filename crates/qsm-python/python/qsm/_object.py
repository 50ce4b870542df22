"""Live objects, of whatever kind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from ._errors import SHUT_DOWN, ClosedError, TimedOutError
from ._waiting import readable

#: Changes that are taken at once, unless said otherwise.
BATCH = 1000
#: Number of a time that was too short.
_TIMED_OUT = 1203

Object = TypeVar("Object", bound="LiveObject")
Item = TypeVar("Item")


class NativeObject(Protocol):
    """The part of an object that is written in Rust."""

    @property
    def live(self) -> bool: ...
    def wait_live(self, timeout: float) -> bool: ...
    def stats(self) -> str: ...
    def close(self) -> None: ...


class NativeChanges(Protocol):
    """The part of an object's changes that is written in Rust."""

    def wait(self, timeout: float | None = None) -> bool: ...
    def fileno(self) -> int: ...


class LiveObject:
    """A live object, whose state comes after it was opened: ``with`` and ``async with`` wait for that, at
    most :attr:`PATIENCE` seconds long, and close the object at the end."""

    #: Seconds that ``with`` and ``async with`` wait for the state.
    PATIENCE = 90.0

    _native: NativeObject

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

    def stats(self) -> dict[str, int]:
        """Its counters since it was opened, as the guide to replicas describes them."""
        return json.loads(self._native.stats())

    def close(self) -> None:
        """Leaves it; loops over its changes end. The other programs keep it."""
        self._native.close()

    def __enter__(self: Object) -> Object:
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

    async def __aenter__(self: Object) -> Object:
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


class Followed(Generic[Item]):
    """Changes of a live object: ``for`` in threads, ``async for`` in tasks. The loop ends when the object is
    closed, or this process shuts the node down. It costs no memory, however slowly it is read.

    One loop, thread or task reads it at a time.
    """

    _native: NativeChanges

    def take(self, most: int = BATCH) -> list[Item] | None:
        """What has come, at most ``most`` items, without waiting; ``None`` once the object was closed."""
        raise NotImplementedError

    def receive(self, timeout: float | None = None) -> list[Item] | None:
        """As :meth:`take`; if there is nothing, waits at most so many seconds, or for ever. Empty if nothing
        came."""
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

    def __iter__(self) -> Iterator[Item]:
        try:
            while (taken := self.receive()) is not None:
                yield from taken
        except ClosedError as end:
            if end.code != SHUT_DOWN:
                raise

    async def __aiter__(self) -> AsyncIterator[Item]:
        try:
            while (taken := self.take()) is not None:
                for item in taken:
                    yield item
                if not taken:
                    await readable(self.fileno())
        except ClosedError as end:
            if end.code != SHUT_DOWN:
                raise


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
    text = f"the object is not live after {timeout} s; see `qsm nodes`, or allow more time"
    return TimedOutError(_TIMED_OUT, text)
