package io.quicksilver.qsm;

import java.util.HashMap;
import java.util.Map;

/** The thread that waits for all streams of a node, while there are some. */
final class StreamWaiter {
    /** Streams that one look finds at most. */
    private static final int MOST = 64;
    /** After so long the thread sees that there are no streams any more, nanoseconds. */
    private static final long LOOK = 1_000_000_000;

    private final String name;
    private final Map<Long, MessageStream> streams = new HashMap<>();
    private final Map<MessageStream, Long> numbers = new HashMap<>();
    private Handle handle;
    private Thread thread;
    private long next;

    /** For the node of this number. */
    StreamWaiter(String id) {
        name = "qsm-streams " + id;
    }

    /** Signals a stream once its subscription has something to take. */
    synchronized void watch(MessageStream stream, Subscription subscription) {
        if (handle == null) {
            handle = Handle.of(this, Native.waiter(), Native::freeWaiter);
        }
        long number = numbers.computeIfAbsent(stream, added -> next++);
        streams.put(number, stream);
        long waiter = handle.enter();
        try {
            subscription.watch(waiter, number);
        } finally {
            handle.leave();
        }
        if (thread == null) {
            thread = new Thread(this::run, name);
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** Signals it no more. */
    synchronized void forget(MessageStream stream) {
        streams.remove(numbers.remove(stream));
    }

    private void run() {
        long[] ready = new long[MOST];
        while (true) {
            int count = look(ready);
            for (int index = 0; index < count; index++) {
                MessageStream stream = find(ready[index]);
                if (stream != null) {
                    stream.signal();
                }
            }
            synchronized (this) {
                if (streams.isEmpty()) {
                    thread = null;
                    return;
                }
            }
        }
    }

    private int look(long[] ready) {
        long waiter = handle.enter();
        try {
            return Native.await(waiter, ready, LOOK);
        } finally {
            handle.leave();
        }
    }

    private synchronized MessageStream find(long number) {
        return streams.get(number);
    }
}
