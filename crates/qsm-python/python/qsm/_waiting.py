"""Waiting in tasks."""

from __future__ import annotations

import asyncio


async def readable(descriptor: int) -> None:
    """Waits in the running loop until the descriptor is readable: one wake-up for a batch."""
    loop = asyncio.get_running_loop()
    rung = loop.create_future()

    def ring() -> None:
        if not rung.done():
            rung.set_result(None)

    loop.add_reader(descriptor, ring)
    try:
        await rung
    finally:
        loop.remove_reader(descriptor)
