"""A publisher and a reader as tasks of one loop."""

import asyncio
import sys

import qsm


async def read(subscription: qsm.Subscription) -> None:
    async for message in subscription:
        print(message.number, bytes(message).decode())
        if message.number == 3:
            return


async def write(publisher: qsm.Publisher) -> None:
    for number in range(1, 4):
        publisher.send(f"story {number}".encode())
        await asyncio.sleep(0.01)


async def main(node: qsm.Node) -> None:
    news = node.subscribe("news")
    await asyncio.gather(read(news), write(node.publisher("news")))


with qsm.Node(cluster=sys.argv[1], interface="lo") as node:
    asyncio.run(main(node))
