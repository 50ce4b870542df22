"""Live maps: what one program writes is in the maps of all."""

import asyncio
import os
import select
import threading
import time

import pytest

import qsm

PATIENCE = 60


@pytest.fixture
def other(node, cluster):
    """Another member of the cluster."""
    with qsm.Node(cluster=cluster, interface="lo", embedded="never") as other:
        yield other


@pytest.fixture
def prices(node):
    with node.live_map("prices") as prices:
        yield prices


def follow(changes, count):
    """So many changes."""
    followed = []
    while len(followed) < count:
        more = changes.receive(PATIENCE)
        assert more, followed
        followed += more
    return followed


def test_maps_of_several_nodes_are_alike(prices, other):
    prices["eur"] = b"1.08"
    prices["usd"] = "1"
    with other.live_map("prices") as screen:
        assert screen == {"eur": b"1.08", "usd": b"1"}
        changes = prices.changes()
        assert follow(changes, 2) == [qsm.Change("eur", b"1.08"), qsm.Change("usd", b"1")]
        screen["gr\u00fcn\0"] = memoryview(b"\0\xff")
        del screen["usd"]
        assert follow(changes, 2) == [
            qsm.Change("gr\u00fcn\0", b"\0\xff"),
            qsm.Change("usd", None),
        ]
        assert prices.snapshot() == screen.snapshot() == {"eur": b"1.08", "gr\u00fcn\0": b"\0\xff"}
        assert prices.text("eur") == "1.08" and prices.text("usd") is None
    assert len(prices) == 2


def test_a_map_is_a_mapping(prices):
    assert not prices and list(prices) == []
    prices.update(b=b"2", a=b"1", c="3")
    assert list(prices) == ["a", "b", "c"] == list(prices.keys())
    assert list(prices.values()) == [b"1", b"2", b"3"]
    assert list(prices.items())[0] == ("a", b"1")
    assert "a" in prices and "d" not in prices and 7 not in prices
    assert (prices.get("a"), prices.get("d"), prices.get("d", b"")) == (b"1", None, b"")
    assert prices.pop("a") == b"1"
    assert prices.setdefault("b", b"9") == b"2"
    with pytest.raises(KeyError):
        prices["a"]
    with pytest.raises(KeyError):
        del prices["a"]
    prices.clear()
    assert dict(prices) == {} and prices.live
    assert repr(prices) == "<qsm.LiveMap of 0 entries>"


def test_who_reads_seldom_is_told_the_last_change_of_each_key(prices):
    changes = prices.changes()
    for number in range(1000):
        prices["a"] = b"%d" % number
        prices["b"] = b"%d" % number
    del prices["a"]
    assert changes.take() == [qsm.Change("b", b"999"), qsm.Change("a", None)]
    # Who begins now is told what is there.
    assert prices.changes().take() == [qsm.Change("b", b"999")]
    assert changes.take() == []
    counted = prices.stats()
    assert (counted["live"], counted["published"], counted["founded"]) == (1, 2001, 1)
    assert counted["state_bytes"] == 4


def test_who_misses_removals_is_told_to_begin_again(node):
    with node.live_map("prices", removed=1) as prices:
        changes = prices.changes()
        prices.update(a=b"1", b=b"1", c=b"1")
        assert len(changes.take()) == 3
        del prices["a"], prices["b"]
        assert changes.take() == [qsm.Restart(), qsm.Change("c", b"1")]


def test_a_loop_waits_for_changes_and_ends_when_the_map_is_closed(prices):
    seen = []
    came = threading.Event()

    def read():
        for change in prices.changes():
            seen.append(change)
            came.set()

    reader = threading.Thread(target=read)
    reader.start()
    prices["a"] = b"1"
    assert came.wait(PATIENCE)
    prices.close()
    reader.join(PATIENCE)
    assert not reader.is_alive() and seen == [qsm.Change("a", b"1")]
    with pytest.raises(ValueError, match="this object is closed"):
        prices["a"] = b"2"
    prices.close()


def test_tasks_follow_a_map(node, other):
    async def run():
        async with node.live_map("prices") as desk, other.live_map("prices") as screen:
            desk["a"] = b"1"
            async for change in screen.changes():
                if change.value == b"1":
                    desk["a"] = b"2"
                elif change.value == b"2":
                    del desk["a"]
                else:
                    return change

    change = asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert change == qsm.Change("a", None)


def test_a_loop_ends_when_the_node_is_shut_down(cluster):
    node = qsm.Node(cluster=cluster, interface="lo", embedded="always")
    prices = node.live_map("prices")
    prices.wait_live(PATIENCE)
    prices["a"] = b"1"
    changes = prices.changes()
    node.shutdown()
    assert list(changes) == [qsm.Change("a", b"1")]
    with pytest.raises(qsm.ClosedError):
        prices["a"] = b"2"


def test_the_descriptor_is_readable_while_something_has_changed(prices):
    changes = prices.changes()
    while select.select([changes], [], [], 0)[0]:
        assert changes.take() == []
    prices["a"] = b"1"
    assert select.select([changes], [], [], PATIENCE)[0]
    assert changes.take() == [qsm.Change("a", b"1")]
    begun = time.monotonic()
    assert changes.receive(0.3) == [] and time.monotonic() - begun >= 0.3


def test_what_a_map_does_not_take_is_named(node):
    prices = node.live_map("prices", bytes=10, removed=2)
    with pytest.raises(qsm.NotLiveError) as error:
        prices["a"] = b"1"
    assert error.value.code == 1801
    with pytest.raises(qsm.TimedOutError, match="not live after 0 s"):
        prices.wait_live(0)
    prices.wait_live(PATIENCE)
    with pytest.raises(qsm.LimitError, match="its bound is 10") as error:
        prices["key"] = b"12345678"
    assert error.value.code == 1804 and isinstance(error.value, ValueError)
    with pytest.raises(qsm.LimitError) as error:
        prices._native.remove("k" * 1025)
    assert error.value.code == 1805
    with pytest.raises(TypeError, match="is no bytes-like object"):
        prices["a"] = 3
    with pytest.raises(TypeError):
        prices[3] = b"1"
    with pytest.raises(ValueError, match="is no time"):
        prices.wait_live(-1)
    with pytest.raises(qsm.Error) as error:
        node.live_map("a/*")
    assert error.value.code == 1206


def test_the_map_of_rust_is_this_one():
    """The test that runs this one has a map, which is to be as this one."""
    with qsm.Node(cluster=os.environ["QSM_CLUSTER"], interface="lo", embedded="never") as node:
        with node.live_map("shared") as shared:
            assert shared["rust"] == b"\0 from Rust"
            shared["python"] = "from Python"
            for change in shared.changes():
                if change == qsm.Change("both", b"seen"):
                    break
            assert node.flush(PATIENCE)
