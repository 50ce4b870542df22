"""Typed messages: the same bytes as Rust's."""

import doctest
import enum
import pathlib
from dataclasses import dataclass

import pytest

import qsm.objects
from qsm.objects import ObjectError, decode, encode, f32, i8, i128, typed, u8, u16, u32, u64, u128

#: Written by the tests of qsm-object.
GOLDEN = pathlib.Path(__file__).parents[3] / "qsm-object/tests/golden.txt"


@dataclass
class Level:
    price: float
    size: u32


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


@typed(300, version=3)
@dataclass
class Everything:
    yes: bool
    byte: u8
    wide: u64
    widest: u128
    small: i8
    signed: int
    lowest: i128
    short: f32
    long: float
    text: str
    data: bytes
    note: str | None
    nothing: str | None
    levels: list[Level]
    sizes: dict[str, u16]
    side: Side


@typed(7)
@dataclass
class Small:
    number: u16


@typed(8)
@dataclass
class Node:
    next: "Node | None"


EVERYTHING = Everything(
    yes=True,
    byte=200,
    wide=2**64 - 1,
    widest=2**128 - 1,
    small=-128,
    signed=-(2**63),
    lowest=-(2**127),
    short=1.5,
    long=-0.1,
    text="grün",
    data=b"\x00\xff",
    note="n",
    nothing=None,
    levels=[Level(0.5, 300), Level(-1.0, 0)],
    sizes={"a": 1, "b": 65535},
    side=Side.SELL,
)


def test_the_bytes_are_those_of_rust():
    golden = bytes.fromhex(GOLDEN.read_text())
    assert encode(EVERYTHING) == golden
    assert decode(golden, Small, Everything) == EVERYTHING


def test_a_message_that_is_cut_short_or_long_is_refused():
    message = encode(EVERYTHING)
    for length in range(len(message)):
        with pytest.raises(ObjectError):
            decode(message[:length], Everything)
    with pytest.raises(ObjectError, match="Everything v3: the message goes on for 1 bytes"):
        decode(message + b"x", Everything)


@pytest.mark.parametrize(
    "message, error",
    [
        (b"", "no object"),
        (b"\xff" * 9, "no object"),
        (b"\x07\x02\x00", r"type 7 v2 is not known, but Small \(7 v1\)"),
        (b"\x07\x01\xff\xff\x04", "Small v1: a number has too many bits"),
    ],
)
def test_what_is_no_object_is_named(message, error):
    with pytest.raises(ObjectError, match=error):
        decode(message, Small)


def test_a_value_that_does_not_fit_is_named():
    for number in (-1, 65536):
        with pytest.raises(ObjectError, match=f"{number} does not fit into u16"):
            encode(Small(number))


def test_objects_within_objects_have_a_limit():
    assert decode(b"\x08\x01" + b"\x01" * 60 + b"\x00", Node).next.next
    with pytest.raises(ObjectError, match="too deep"):
        decode(b"\x08\x01" + b"\x01" * 100_000, Node)


def test_types_without_a_number_are_refused():
    with pytest.raises(TypeError, match="mark it with @typed"):
        encode(Level(1.0, 1))
    with pytest.raises(TypeError, match="is no dataclass"):
        typed(1)(Side)
    with pytest.raises(ValueError, match="a number of 32 bits"):
        typed(2**32)


def test_the_example_of_the_module():
    assert doctest.testmod(qsm.objects).failed == 0
