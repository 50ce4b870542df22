"""Live logs: the newest entries that several programs write and have alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

from ._native import LogEvents as NativeLogEvents
from ._native import LiveLog as NativeLiveLog
from ._object import BATCH, Followed, LiveObject


@dataclass(frozen=True)
class Entry:
    """An entry of a live log."""

    #: When it was written, by its writer's clock: seconds since 1970.
    time: float
    content: bytes


@dataclass(frozen=True)
class Missed:
    """Entries of a live log that came and had to go before they were read."""

    entries: int


LogEvent = Union[Entry, Missed]


class LiveLog(LiveObject):
    """A log of the newest entries that several programs write: ``node.live_log("events")``.

    It is opened, waited for and closed as a :class:`LiveMap`. An entry is in this log at once, and in the
    others when it comes; an entry of a writer who has seen another one is behind that, in all of them.

    Any number of threads may use it.
    """

    _native: NativeLiveLog

    def __init__(self, native: NativeLiveLog) -> None:
        self._native = native

    def append(self, content: object) -> None:
        """Appends an entry: a text (as UTF-8), or any object with the buffer protocol, which is copied."""
        self._native.append(content.encode() if isinstance(content, str) else content)

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[Entry]:
        """Entries of one moment, the oldest first."""
        return iter([Entry(time / 1e6, content) for time, content in self._native.entries()])

    def events(self) -> LogEvents:
        """The log as it grows, for one loop: entries that are there first, then those that come, its own as
        well, in the order in which they come here."""
        return LogEvents(self._native.events())

    def __repr__(self) -> str:
        return f"<qsm.LiveLog of {len(self)} entries>"


class LogEvents(Followed[LogEvent]):
    """Entries of a live log, as they come: ``for event in events`` in threads, ``async for`` in tasks. The
    loop ends when the log is closed, or this process shuts the node down.

    It costs no memory, however slowly it is read: entries that had to go before they were read are counted,
    as :class:`Missed`.
    """

    _native: NativeLogEvents

    def __init__(self, native: NativeLogEvents) -> None:
        self._native = native

    def take(self, most: int = BATCH) -> list[LogEvent] | None:
        """What has come, at most ``most`` entries, without waiting; ``None`` once the log was closed."""
        taken = self._native.take(most)
        return None if taken is None else [_event(*event) for event in taken]


def _event(number: int, content: bytes | None) -> LogEvent:
    return Missed(number) if content is None else Entry(number / 1e6, content)
