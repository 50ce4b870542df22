"""Errors, by their stable numbers (docs/reference/errors.md)."""

from __future__ import annotations


class Error(Exception):
    """An error of Quicksilver; its text has the cause and the remedy."""

    #: Stable number, such as 1203 of ``QSM-1203``.
    code: int

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __str__(self) -> str:
        return f"{self.args[0]} (QSM-{self.code})"


class StartError(Error):
    """A node cannot be started, or not be attached to an engine."""


class SettingError(Error, ValueError):
    """There is no such setting, or it does not take such a value."""


class ClosedError(Error):
    """The node has ended."""


class OverflowError(Error):
    """The subscription ended because its reader was too slow (``overflow="disconnect"``)."""


class TimedOutError(Error, TimeoutError):
    """It took too long, or too few receivers came in time."""


class NotLiveError(Error):
    """A live object has no state that follows, or none yet: write again once it is live."""


class LimitError(Error, ValueError):
    """A live object would become larger than its bound, or a key is too long."""


class MissingError(Exception):
    """Something is missing before the next message. Reading on goes on behind it."""

    #: What is missing: ``Lost``, ``LostPackets``, ``Dropped`` or ``Excluded``.
    notice: object

    def __init__(self, notice: object) -> None:
        super().__init__(f"{notice}; read on behind it, or with losses='yield'")
        self.notice = notice


#: Number of a closed node that was shut down by this process.
SHUT_DOWN = 1104
_TIMED_OUT = (1203, 1207)
_OVERFLOW = 1401
_SETTING = 1703
_NOT_LIVE = 1801
_LIMITS = (1804, 1805)


def of(code: int, text: str) -> Error:
    """The exception for a number."""
    if code == _SETTING:
        return SettingError(code, text)
    if code == _OVERFLOW:
        return OverflowError(code, text)
    if code in _TIMED_OUT:
        return TimedOutError(code, text)
    if code == _NOT_LIVE:
        return NotLiveError(code, text)
    if code in _LIMITS:
        return LimitError(code, text)
    if 1100 <= code < 1200:
        return ClosedError(code, text)
    if 1000 <= code < 1100 or 1600 <= code < 1700:
        return StartError(code, text)
    return Error(code, text)
