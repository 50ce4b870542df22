"""Nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType

from . import _native
from ._log import LiveLog
from ._map import LiveMap
from ._native import Event, Flushed, Position, Publisher
from ._subscription import Subscription


class Node:
    """A member of a cluster, of this process or attached to an engine of the host.

    Settings are those of ``qsm pub --help``, with underscores: ``Node(cluster="floor-2",
    interface="eth0", retention="1G", payload_checksums=True)``. :func:`qsm.settings` lists them.

    As a context manager it is shut down at the end, after what it was given has been sent, at most
    ten seconds long.
    """

    #: Seconds that a context manager gives what is left to be sent.
    PATIENCE = 10.0

    def __init__(self, **settings: object) -> None:
        given = [(name.replace("_", "-"), _text(value)) for name, value in settings.items()]
        self._native = _native.start(given)

    @classmethod
    def attach(cls, path: str | os.PathLike[str]) -> Node:
        """Attaches to the engine at a path (``qsm engine --at PATH``)."""
        node = cls.__new__(cls)
        node._native = _native.attach(os.fspath(path))
        return node

    def subscribe(
        self,
        *groups: str,
        queue_bytes: int | None = None,
        queue_messages: int | None = None,
        overflow: str = "drop-newest",
        order: str = "sender",
        within: float | None = None,
        last: int | None = None,
        resume: Position | None = None,
        held_bytes: int | None = None,
    ) -> Subscription:
        """Subscribes to groups, by name or by patterns such as ``prices/*``.

        ``overflow`` says what a full queue does: ``drop-newest``, ``drop-oldest``, ``disconnect``, or
        ``hold``: publishers wait. ``order`` is ``sender``, in each sender's order, or ``arrival``, as
        messages arrive. ``within`` is the longest wait for what is missing, in seconds; what comes
        later is told as lost.

        With ``last`` messages begin that many before now, of each sender, as far as keepers have them;
        0 begins now. With ``resume`` they begin behind a position, and ``last`` counts only where that
        is ``None``: ``subscribe("news", resume=Position.load(path), last=0)``. Such a subscription
        has a :attr:`Subscription.position`, and no patterns. ``held_bytes`` is the memory of live
        messages that wait for older ones, of each group.
        """
        native = self._native.subscribe(
            list(groups),
            queue_bytes,
            queue_messages,
            overflow,
            order,
            within,
            last,
            resume,
            held_bytes,
        )
        return Subscription(native)

    def keep(
        self,
        *groups: str,
        messages: int | None = None,
        bytes: int | None = None,
        age: float | None = None,
        bytes_per_second: int | None = None,
    ) -> Keeper:
        """Keeps the last messages of groups, by name, for those who join later.

        Of each sender ``messages`` are kept (1,000), of each group ``bytes`` (64 MiB, with 96 for each
        message), none longer than ``age`` seconds (for ever). ``bytes_per_second`` is what is sent to
        all that join (16 MiB).
        """
        return Keeper(self._native.keep(list(groups), messages, bytes, age, bytes_per_second))

    def live_map(
        self, group: str, *, bytes: int | None = None, removed: int | None = None
    ) -> LiveMap:
        """Opens the live map of a group; ``with`` waits until its state is there. A node has one of a group
        at most.

        Of who founds it the bounds hold for all: ``bytes`` of keys and values (64 MiB), and the number of
        ``removed`` keys that are remembered (65,536).
        """
        return LiveMap(self._native.live_map(group, bytes, removed))

    def live_log(
        self, group: str, *, entries: int | None = None, bytes: int | None = None
    ) -> LiveLog:
        """Opens the live log of a group; ``with`` waits until its state is there. A node has one of a group
        at most.

        Of who founds it the bounds hold for all: the newest ``entries`` (10,000) and ``bytes`` (16 MiB) stay.
        """
        return LiveLog(self._native.live_log(group, entries, bytes))

    def publisher(
        self,
        group: str,
        *,
        batch_delay: float | None = None,
        batch_bytes: int | None = None,
    ) -> Publisher:
        """A publisher to a group.

        ``batch_delay`` is the longest time that its messages wait for others in their packet, in
        seconds; ``batch_bytes`` the length from which on a packet does not wait. Without them no
        message waits. A node that is attached refuses them: its engine packs the messages of all
        processes.
        """
        return self._native.publisher(group, batch_delay, batch_bytes)

    def wait_admitted(self, timeout: float | None = None) -> None:
        """Waits until the node is a member of its cluster."""
        self._native.wait_admitted(timeout)

    def flush(self, timeout: float | None = None) -> Flushed:
        """Waits until all live receivers have everything; says who has not. True if nobody lacks
        anything."""
        return self._native.flush(timeout)

    def shutdown(self, timeout: float | None = PATIENCE) -> Flushed:
        """Sends what is left, and ends the node: loops over its subscriptions end."""
        return self._native.shutdown(timeout)

    def events(self) -> Iterator[Event]:
        """What happens to the node from now on; the last one says that it has ended."""
        return _events(self._native.events())

    @property
    def id(self) -> str:
        """The node's number in its cluster, as ``qsm nodes`` shows it."""
        return self._native.id

    @property
    def closed(self) -> str | None:
        """Why the node has ended; ``None`` while it runs."""
        return self._native.closed

    def __enter__(self) -> Node:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.closed is None:
            self.shutdown()


class Keeper:
    """A keeper of the last messages of some groups, until it is closed or garbage. As a context
    manager it is closed at the end."""

    def __init__(self, native: _native.Keeper) -> None:
        self._native = native

    @property
    def messages(self) -> int:
        """Messages kept now."""
        return self._native.messages

    @property
    def bytes(self) -> int:
        """Memory that they take, with 96 bytes for each."""
        return self._native.bytes

    @property
    def senders(self) -> int:
        """Senders known now."""
        return self._native.senders

    @property
    def sent_messages(self) -> int:
        """Messages sent to subscribers, in all."""
        return self._native.sent_messages

    @property
    def refused(self) -> int:
        """Questions not served, because too many others were, in all."""
        return self._native.refused

    @property
    def ended(self) -> str | None:
        """Why it keeps no more; ``None`` while it does, and when it was closed."""
        return self._native.ended

    def close(self) -> None:
        """Leaves the groups, and forgets what was kept."""
        self._native.close()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _events(reader: _native.Events) -> Iterator[Event]:
    while True:
        # In slices, so that Ctrl-C ends it.
        event = reader.next(0.2)
        if event is None:
            continue
        yield event
        if event.kind == "Closed":
            return


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
