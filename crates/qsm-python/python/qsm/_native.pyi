"""The part that is written in Rust."""

import os
from collections.abc import Iterable, Iterator

VERSION: str

def settings() -> list[tuple[str, str]]:
    """Names and meanings of all settings."""

def start(given: list[tuple[str, str]]) -> Node: ...
def attach(path: str) -> Node: ...

class Node:
    id: str
    closed: str | None
    def subscribe(
        self,
        groups: list[str],
        queue_bytes: int | None = None,
        queue_messages: int | None = None,
        overflow: str = "drop-newest",
        order: str = "sender",
        within: float | None = None,
        last: int | None = None,
        resume: Position | None = None,
        held_bytes: int | None = None,
    ) -> Reader: ...
    def keep(
        self,
        groups: list[str],
        messages: int | None = None,
        bytes: int | None = None,
        age: float | None = None,
        bytes_per_second: int | None = None,
    ) -> Keeper: ...
    def live_map(
        self, group: str, bytes: int | None = None, removed: int | None = None
    ) -> LiveMap: ...
    def live_log(
        self, group: str, entries: int | None = None, bytes: int | None = None
    ) -> LiveLog: ...
    def publisher(
        self, group: str, batch_delay: float | None = None, batch_bytes: int | None = None
    ) -> Publisher: ...
    def wait_admitted(self, timeout: float | None = None) -> None: ...
    def flush(self, timeout: float | None = None) -> Flushed: ...
    def shutdown(self, timeout: float | None = None) -> Flushed: ...
    def events(self) -> Events: ...

class Flushed:
    """What receivers have; true if nobody lacks anything."""

    complete: bool
    unserved: list[str]
    more: int
    away: list[str]
    def __bool__(self) -> bool: ...

class Publisher:
    """Sends to one group; any number of threads may use it."""

    group: str
    members: int
    queued: int
    def send(self, message: object) -> None:
        """Sends a message, any object with the buffer protocol; waits while the queue is full."""

    def try_send(self, message: object) -> bool:
        """As ``send``, if there is room; whether there was."""

    def send_all(self, messages: Iterable[object]) -> int:
        """Sends each message; how many there were."""

    def wait_for_members(self, count: int, timeout: float | None = None) -> None:
        """Waits until the group has so many receivers beside this node."""

class Reader:
    dropped: int
    queued: int
    groups: list[str]
    def take(
        self, most: int
    ) -> (
        Batch | Lost | LostPackets | Dropped | Back | Excluded | NotKept | Joined | None
    ): ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def fileno(self) -> int: ...
    def position(self, left: Messages | None = None) -> Position | None: ...

class Position:
    """A place up to which a subscription was read, of each sender in each group; ``str`` is its text."""

    def __init__(self, text: str) -> None:
        """Reads a text; one that is no position raises ``SettingError``."""

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Position | None:
        """Reads a file that ``save`` wrote; ``None`` if there is none."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file, which is whole at any time: beside it, with ``.new`` behind its name, first."""

class Keeper:
    messages: int
    bytes: int
    senders: int
    sent_messages: int
    refused: int
    ended: str | None
    def close(self) -> None: ...

class LiveMap:
    live: bool
    def wait_live(self, timeout: float) -> bool: ...
    def set(self, key: str, value: object) -> None: ...
    def remove(self, key: str) -> None: ...
    def get(self, key: str) -> bytes | None: ...
    def keys(self) -> list[str]: ...
    def items(self) -> list[tuple[str, bytes]]: ...
    def __len__(self) -> int: ...
    def changes(self) -> Changes: ...
    def stats(self) -> str: ...
    def close(self) -> None: ...

class Changes:
    def take(self, most: int) -> list[tuple[str | None, bytes | None]] | None: ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def fileno(self) -> int: ...

class LiveLog:
    live: bool
    def wait_live(self, timeout: float) -> bool: ...
    def append(self, content: object) -> None: ...
    def entries(self) -> list[tuple[int, bytes]]: ...
    def __len__(self) -> int: ...
    def events(self) -> LogEvents: ...
    def stats(self) -> str: ...
    def close(self) -> None: ...

class LogEvents:
    def take(self, most: int) -> list[tuple[int, bytes | None]] | None: ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def fileno(self) -> int: ...

class Messages(Iterator[Message]):
    def __iter__(self) -> Messages: ...
    def __next__(self) -> Message: ...

class Batch:
    def __len__(self) -> int: ...
    def __iter__(self) -> Messages: ...
    def __getitem__(self, index: int) -> Message: ...
    def contents_list(self) -> list[bytes]: ...
    def joined(self, size: int) -> bytes: ...

class Message:
    """A message: a buffer, whose content is not copied but by ``bytes(message)``."""

    group: str
    sender: str
    number: int
    data: memoryview
    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...

class Events:
    def next(self, timeout: float | None = None) -> Event | None: ...

class Event:
    """Something that happened to a node; its text is one line for people."""

    kind: str

class Lost:
    """Messages ``first`` to ``last`` of a sender in a group, which will never come."""

    group: str
    sender: str
    first: int
    last: int
    cause: str
    """``gone``, ``excluded``, ``overdue`` or ``expired``."""
    missing: int

class LostPackets:
    """Packets of a sender that is gone; which messages were in them is not known."""

    sender: str
    packets: int
    missing: int

class Dropped:
    """Messages that the subscription's own queue had no room for."""

    messages: int
    missing: int

class Back:
    """The node was away for a while, and has caught up: nothing is missing."""

    away: float
    missing: int

class Excluded:
    """The node was away for too long and began a new life: something may be missing."""

    incarnation: int
    missing: int

class NotKept:
    """Messages ``first`` to ``last`` of a sender that were asked for of the past, and come neither way."""

    group: str
    sender: str
    first: int
    last: int
    cause: str
    """``gone``: no keeper has them; ``no-keeper``: nobody keeps the group; ``held``: more came live
    than there was room for meanwhile."""
    missing: int

class Joined:
    """The past of a group has come, or is missing, which was told before. Messages go on live."""

    group: str
    keepers: int
    kept: int
    not_kept: int
    missing: int
