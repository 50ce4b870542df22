"""Records of fixed size, as arrays of numpy, and losses that are told."""

import sys

import numpy

import qsm

TRADE = numpy.dtype([("price", "<f8"), ("amount", "<u4")])

with qsm.Node(cluster=sys.argv[1], interface="lo") as node:
    subscription = node.subscribe("trades", queue_messages=1000)
    publisher = node.publisher("trades")
    trades = numpy.array([(1.5, 10), (1.25, 20), (1.75, 30)], dtype=TRADE)
    publisher.send_all(trade.tobytes() for trade in trades)
    seen = 0
    for batch in subscription.batches(losses="yield"):
        if not isinstance(batch, qsm.Batch):
            print("missing:", batch)
            continue
        records = batch.numpy(TRADE)
        seen += len(records)
        print("highest so far", records["price"].max())
        if seen == len(trades):
            break
