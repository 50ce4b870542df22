"""Subscriptions: for loops and for tasks, by message and by batch."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Literal, Union

from . import _native
from ._errors import SHUT_DOWN, ClosedError, MissingError
from ._native import (
    Back,
    Dropped,
    Excluded,
    Joined,
    Lost,
    LostPackets,
    Message,
    NotKept,
    Position,
)
from ._waiting import readable

Notice = Union[Lost, LostPackets, Dropped, Back, Excluded, NotKept, Joined]
Losses = Literal["raise", "yield"]

#: Messages that a batch has at most, unless said otherwise.
BATCH = 1000


class Batch:
    """Messages taken together, in order: a sequence of :class:`Message`."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Batch) -> None:
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> _native.Messages:
        return iter(self._native)

    def __getitem__(self, index: int) -> Message:
        return self._native[index]

    def contents(self) -> list[bytes]:
        """The contents of all messages, copied."""
        return self._native.contents_list()

    def numpy(self, dtype: object) -> object:
        """An array with one record of ``dtype`` for each message, copied once, not writable.

        ValueError if a message has another size than the type.
        """
        import numpy

        kind = numpy.dtype(dtype)
        return numpy.frombuffer(self._native.joined(kind.itemsize), dtype=kind)

    def __repr__(self) -> str:
        return repr(self._native)


class Subscription:
    """Messages of some groups, and what is missing between them.

    Iterating waits for messages: ``for message in subscription`` in threads, ``async for`` in tasks,
    ``batches()`` in either, many at a time. The loop ends when this process shuts the node down.

    One loop, thread or task reads a subscription at a time.
    """

    def __init__(self, native: _native.Reader) -> None:
        self._native = native
        #: Of a loop over messages, those that it has not given yet.
        self._left: _native.Messages | None = None

    # What has come ----------------------------------------------------------

    def take(self, most: int = BATCH) -> Batch | Notice | None:
        """What has come, without waiting: a batch, or what is missing before the next message, or
        ``None``. For loops of one's own around :meth:`fileno`: take until ``None``, then wait."""
        taken = self._native.take(most)
        self._left = None
        return Batch(taken) if isinstance(taken, _native.Batch) else taken

    def receive(self, timeout: float | None = None) -> Batch | Notice | None:
        """As :meth:`take`, waiting at most so many seconds, or for ever."""
        taken = self.take()
        left, begun = timeout, time.monotonic()
        # With a past there is not always something.
        while taken is None and self._native.wait(left):
            taken = self.take()
            if timeout is not None:
                left = max(0.0, timeout - (time.monotonic() - begun))
        return taken

    def fileno(self) -> int:
        """A descriptor for ``select`` and its like: readable while there is something new to take; with
        a past now and then without, so that keepers are asked."""
        return self._native.fileno()

    # By message -------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        for batch in self.batches():
            yield from self._messages(batch)

    async def __aiter__(self) -> AsyncIterator[Message]:
        async for batch in self.batches():
            for message in self._messages(batch):
                yield message

    def _messages(self, batch: Batch) -> Iterator[Message]:
        self._left = iter(batch)
        return self._left

    def received(self) -> Received:
        """Messages, and notices of what is missing between them, in their order."""
        return Received(self)

    # By batch ---------------------------------------------------------------

    def batches(self, most: int = BATCH, losses: Losses = "raise") -> Batches:
        """Batches of at most ``most`` messages.

        What is missing is raised as :class:`MissingError` in its place; iterating again goes on
        behind it. With ``losses="yield"`` the notice comes between the batches instead.
        """
        if losses not in ("raise", "yield"):
            raise ValueError(f"losses={losses!r}; give 'raise' or 'yield'")
        return Batches(self, most, losses == "raise")

    # What it is -------------------------------------------------------------

    @property
    def groups(self) -> list[str]:
        """The groups, names and patterns as they were given."""
        return self._native.groups

    @property
    def dropped(self) -> int:
        """Messages dropped so far, because the queue was full."""
        return self._native.dropped

    @property
    def queued(self) -> int:
        """Messages that wait in the queue."""
        return self._native.queued

    @property
    def position(self) -> Position | None:
        """The place behind all messages that loops have given, and batches that were taken, to go on
        from in another process; ``None`` without a past (``last``, ``resume``)."""
        return self._native.position(self._left)


class Batches:
    """Iterator of :meth:`Subscription.batches`, for loops and for tasks."""

    def __init__(self, subscription: Subscription, most: int, raises: bool) -> None:
        self._subscription = subscription
        self._most = most
        self._raises = raises

    def _next(self) -> Batch | Notice | None:
        while True:
            taken = self._subscription.take(self._most)
            if taken is None or isinstance(taken, Batch) or not self._raises:
                return taken
            # Nothing is missing where the node has caught up, or the past has come.
            if not isinstance(taken, (Back, Joined)):
                raise MissingError(taken)

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Batch | Notice:
        try:
            while (taken := self._next()) is None:
                self._subscription._native.wait()
        except ClosedError as end:
            if end.code == SHUT_DOWN:
                raise StopIteration from None
            raise
        return taken

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> Batch | Notice:
        try:
            while (taken := self._next()) is None:
                await readable(self._subscription.fileno())
        except ClosedError as end:
            if end.code == SHUT_DOWN:
                raise StopAsyncIteration from None
            raise
        return taken


class Received:
    """Iterator of :meth:`Subscription.received`, for loops and for tasks."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def __iter__(self) -> Iterator[Message | Notice]:
        for taken in self._subscription.batches(losses="yield"):
            if isinstance(taken, Batch):
                yield from self._subscription._messages(taken)
            else:
                yield taken

    async def __aiter__(self) -> AsyncIterator[Message | Notice]:
        async for taken in self._subscription.batches(losses="yield"):
            if isinstance(taken, Batch):
                for message in self._subscription._messages(taken):
                    yield message
            else:
                yield taken
