"""Quicksilver: reliable multicast to thousands of overlapping groups, without a broker.

>>> import qsm
>>> with qsm.Node(cluster="floor-2") as node:           # doctest: +SKIP
...     prices = node.subscribe("prices/*")
...     node.publisher("prices/eur").send(b"1.0842")
...     for message in prices:
...         print(message.group, message.number, bytes(message))

Messages are taken in batches, and no thread of the library ever waits for the interpreter: a program
that stands still fills its own queue, and harms nobody.
"""

from ._errors import (
    ClosedError,
    Error,
    LimitError,
    MissingError,
    NotLiveError,
    OverflowError,
    SettingError,
    StartError,
    TimedOutError,
)
from ._native import (
    VERSION as __version__,
    Back,
    Dropped,
    Event,
    Excluded,
    Flushed,
    Joined,
    Lost,
    LostPackets,
    Message,
    NotKept,
    Position,
    Publisher,
    settings,
)
from ._log import Entry, LiveLog, LogEvent, LogEvents, Missed
from ._map import Change, Changes, LiveMap, MapChange, Restart
from ._node import Keeper, Node
from ._subscription import Batch, Batches, Notice, Received, Subscription

__all__ = [
    "Back",
    "Batch",
    "Batches",
    "Change",
    "Changes",
    "ClosedError",
    "Dropped",
    "Entry",
    "Error",
    "Event",
    "Excluded",
    "Flushed",
    "Joined",
    "Keeper",
    "LimitError",
    "LiveLog",
    "LiveMap",
    "LogEvent",
    "LogEvents",
    "Lost",
    "LostPackets",
    "MapChange",
    "Message",
    "Missed",
    "MissingError",
    "Node",
    "NotKept",
    "NotLiveError",
    "Notice",
    "OverflowError",
    "Position",
    "Publisher",
    "Received",
    "Restart",
    "SettingError",
    "StartError",
    "Subscription",
    "TimedOutError",
    "__version__",
    "settings",
]
