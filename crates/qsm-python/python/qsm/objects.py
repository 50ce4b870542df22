"""Typed messages: dataclasses with the number of their type in front (docs/guides/objects.md).

>>> from dataclasses import dataclass
>>> from qsm.objects import decode, encode, typed, u32
>>> @typed(17, version=2)
... @dataclass
... class Quote:
...     symbol: str
...     bid: float
...     size: u32
>>> message = encode(Quote("EUR", 1.0842, 300))
>>> len(message)
16
>>> decode(message, Quote)
Quote(symbol='EUR', bid=1.0842, size=300)

The bytes are those of Rust's types with the same fields, and of a schema's: ``str`` is ``string``,
``float`` is ``f64``, ``int`` is ``i64``; ``u8`` to ``u128``, ``i8`` to ``i128`` and ``f32`` are named here.
``bool``, ``bytes``, ``T | None``, ``list[T]``, ``dict[K, V]``, dataclasses and ``enum.Enum`` are what they
are called; an ``Enum`` is one whose variants have no content, in the order of their definition.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import struct
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from ._errors import Error

T = TypeVar("T")

#: Number of errors of objects.
_OBJECT = 1705
#: Objects within objects, at most.
_DEPTH = 64

u8 = Annotated[int, "u8"]
u16 = Annotated[int, "u16"]
u32 = Annotated[int, "u32"]
u64 = Annotated[int, "u64"]
u128 = Annotated[int, "u128"]
i8 = Annotated[int, "i8"]
i16 = Annotated[int, "i16"]
i32 = Annotated[int, "i32"]
i64 = Annotated[int, "i64"]
i128 = Annotated[int, "i128"]
f32 = Annotated[float, "f32"]
f64 = Annotated[float, "f64"]


class ObjectError(Error, ValueError):
    """A message is no object of the types asked for, or a value does not fit its type."""

    def __init__(self, text: str) -> None:
        super().__init__(_OBJECT, text)


@dataclasses.dataclass(frozen=True)
class _Codec:
    """How values of a type are written and read."""

    write: Callable[[Any, bytearray], None]
    read: Callable[[_Body], Any]


class _Body:
    """A message that is being read from its front."""

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.place = 0
        self.depth = 0

    def take(self, length: int) -> bytes:
        end = self.place + length
        if end > len(self.message):
            raise ObjectError("the message ends too early")
        taken = self.message[self.place : end]
        self.place = end
        return taken

    def varint(self, bits: int) -> int:
        number = 0
        for shift in range(0, bits, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number >> bits:
                    break
                return number
        raise ObjectError("a number has too many bits")

    def count(self) -> int:
        count = self.varint(64)
        if count > len(self.message) - self.place:
            raise ObjectError("the message ends too early")
        return count


def _append(number: int, to: bytearray) -> None:
    while number >= 0x80:
        to.append(number & 0x7F | 0x80)
        number >>= 7
    to.append(number)


# Types of messages -------------------------------------------------------------


def typed(number: int, version: int = 1) -> Callable[[type[T]], type[T]]:
    """Makes a dataclass a type of messages, with a number and a version that readers know."""
    if not 0 <= number < 1 << 32 or not 0 <= version < 1 << 16:
        raise ValueError("a type has a number of 32 bits and a version of 16")

    def mark(kind: type[T]) -> type[T]:
        if not dataclasses.is_dataclass(kind):
            raise TypeError(f"{kind.__name__} is no dataclass; write @dataclass below @typed")
        kind.__qsm_type__ = (number, version)  # type: ignore[attr-defined]
        return kind

    return mark


def encode(value: object) -> bytes:
    """The message for an object of a typed dataclass."""
    header = getattr(type(value), "__qsm_type__", None)
    if header is None:
        raise TypeError(f"{type(value).__name__} has no number; mark it with @typed")
    message = bytearray()
    for number in header:
        _append(number, message)
    _codec(type(value)).write(value, message)
    return bytes(message)


def decode(message: object, *kinds: type[T]) -> T:
    """The object in a message, of one of these types.

    :class:`ObjectError` if it is of another type or version, or not what its type says.
    """
    body = _Body(bytes(message))  # type: ignore[call-overload]
    try:
        found = (body.varint(32), body.varint(16))
    except ObjectError:
        raise ObjectError("no object: its sender may send plain bytes") from None
    known = {kind.__qsm_type__: kind for kind in kinds}  # type: ignore[attr-defined]
    kind = known.get(found)
    if kind is None:
        names = ", ".join(f"{kind.__name__} ({n} v{v})" for (n, v), kind in known.items())
        raise ObjectError(f"type {found[0]} v{found[1]} is not known, but {names or 'none'}")
    try:
        value = _codec(kind).read(body)
    except ObjectError as error:
        raise ObjectError(f"{kind.__name__} v{found[1]}: {error.args[0]}") from None
    left = len(body.message) - body.place
    if left:
        raise ObjectError(f"{kind.__name__} v{found[1]}: the message goes on for {left} bytes")
    return value


# Values ------------------------------------------------------------------------


@functools.cache
def _codec(kind: Any) -> _Codec:
    origin = typing.get_origin(kind)
    if origin is Annotated:
        return _number(typing.get_args(kind)[1])
    if origin in (typing.Union, types.UnionType):
        return _maybe(kind)
    if origin is list:
        return _list(typing.get_args(kind)[0])
    if origin is dict:
        return _map(*typing.get_args(kind))
    if dataclasses.is_dataclass(kind):
        return _fields(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _variants(kind)
    simple = {bool: _flag, int: lambda: _number("i64"), float: lambda: _number("f64")}
    simple |= {str: _text, bytes: _bytes}
    if kind in simple:
        return simple[kind]()
    raise TypeError(f"{kind} has no form in a message; see qsm.objects")


def _number(name: str) -> _Codec:
    if name in ("f32", "f64"):
        layout = struct.Struct("<f" if name == "f32" else "<d")
        return _Codec(
            lambda value, to: to.extend(layout.pack(value)),
            lambda body: layout.unpack(body.take(layout.size))[0],
        )
    signed, bits = name[0] == "i", int(name[1:])
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def write(value: int, to: bytearray) -> None:
        if not least <= value <= most:
            raise ObjectError(f"{value} does not fit into {name}")
        if bits == 8:
            to.append(value & 0xFF)
        else:
            _append((value << 1) ^ (value >> bits - 1) if signed else value, to)

    def read(body: _Body) -> int:
        if bits == 8:
            byte = body.take(1)[0]
            return byte - 256 if signed and byte > 127 else byte
        number = body.varint(bits)
        return (number >> 1) ^ -(number & 1) if signed else number

    return _Codec(write, read)


def _flag() -> _Codec:
    def read(body: _Body) -> bool:
        byte = body.take(1)[0]
        if byte > 1:
            raise ObjectError(f"{byte} is neither yes (1) nor no (0)")
        return byte == 1

    return _Codec(lambda value, to: to.append(1 if value else 0), read)


def _bytes() -> _Codec:
    def write(value: bytes, to: bytearray) -> None:
        _append(len(value), to)
        to.extend(value)

    return _Codec(write, lambda body: body.take(body.count()))


def _text() -> _Codec:
    raw = _bytes()

    def read(body: _Body) -> str:
        try:
            return raw.read(body).decode()
        except UnicodeDecodeError:
            raise ObjectError("the text is not UTF-8") from None

    return _Codec(lambda value, to: raw.write(value.encode(), to), read)


def _maybe(kind: Any) -> _Codec:
    some = [part for part in typing.get_args(kind) if part is not type(None)]
    if len(some) != 1 or len(typing.get_args(kind)) != 2:
        raise TypeError(f"{kind} has no form in a message; a union is of one type and None")
    flag, content = _flag(), _codec(some[0])

    def write(value: Any, to: bytearray) -> None:
        flag.write(value is not None, to)
        if value is not None:
            content.write(value, to)

    return _Codec(write, lambda body: content.read(body) if flag.read(body) else None)


def _list(kind: Any) -> _Codec:
    item = _codec(kind)

    def write(value: list[Any], to: bytearray) -> None:
        _append(len(value), to)
        for part in value:
            item.write(part, to)

    return _Codec(write, lambda body: [item.read(body) for _ in range(body.count())])


def _map(key: Any, value: Any) -> _Codec:
    keys, values = _codec(key), _codec(value)

    def write(pairs: dict[Any, Any], to: bytearray) -> None:
        _append(len(pairs), to)
        for one, other in pairs.items():
            keys.write(one, to)
            values.write(other, to)

    def read(body: _Body) -> dict[Any, Any]:
        return {keys.read(body): values.read(body) for _ in range(body.count())}

    return _Codec(write, read)


def _fields(kind: Any) -> _Codec:
    hints = typing.get_type_hints(kind, include_extras=True)
    names = [field.name for field in dataclasses.fields(kind)]

    @functools.cache
    def codecs() -> list[tuple[str, _Codec]]:
        # Later, because a type may hold itself.
        return [(name, _codec(hints[name])) for name in names]

    def write(value: Any, to: bytearray) -> None:
        for name, codec in codecs():
            codec.write(getattr(value, name), to)

    def read(body: _Body) -> Any:
        if body.depth == _DEPTH:
            raise ObjectError("objects within objects are too deep")
        body.depth += 1
        values = [codec.read(body) for _, codec in codecs()]
        body.depth -= 1
        return kind(*values)

    return _Codec(write, read)


def _variants(kind: type[enum.Enum]) -> _Codec:
    variants = list(kind)

    def read(body: _Body) -> enum.Enum:
        found = body.varint(32)
        if found >= len(variants):
            raise ObjectError(f"there is no variant {found}")
        return variants[found]

    return _Codec(lambda value, to: _append(variants.index(value), to), read)
