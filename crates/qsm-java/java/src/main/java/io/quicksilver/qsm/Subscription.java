package io.quicksilver.qsm;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Messages of some groups, and what is missing between them.
 *
 * <p>Messages are polled: {@link #poll(Handler, int)} gives what has come to a handler, one by one, as
 * views into a direct buffer of 64 KiB, which grows with the longest message. In steady state nothing is
 * allocated for a message.
 *
 * <p>One thread reads a subscription at a time. Any thread may close it.
 */
public final class Subscription implements AutoCloseable {
    /** Bytes that are taken at once, unless a message is longer: they stay in the processor's cache. */
    private static final int BUFFER = 64 << 10;

    private final Handle handle;
    private final List<String> groups;
    private final StreamWaiter waiter;
    private final AtomicBoolean reading = new AtomicBoolean();
    private final Frame frame = new Frame();
    private final Message message = new Message(frame);
    /** The stream that reads it; null while none does. */
    private volatile MessageStream stream;

    private ByteBuffer buffer;
    /** The next frame in the buffer, and the end of the last one. */
    private int position;
    private int end;

    Subscription(long subscription, List<String> groups, StreamWaiter waiter) {
        this.handle = Handle.of(this, subscription, Native::freeSubscription);
        this.groups = groups;
        this.waiter = waiter;
    }

    // By message ---------------------------------------------------------------

    /**
     * Gives what has come to a handler, without waiting. What the handler throws is thrown, and the next
     * poll goes on behind that item.
     *
     * @param handler takes messages and notices, in their order
     * @param limit items to take at most
     * @return items taken; 0 if nothing is there
     * @throws MissingException something is missing, unless the handler takes notices
     * @throws OverflowException the subscription has ended, because it was read too slowly
     * @throws ClosedException the node has ended, and everything was taken
     */
    public int poll(Handler handler, int limit) {
        checkLimit(handler, limit);
        checkReader(null);
        return take(handler, limit, limit, 0);
    }

    /**
     * As {@link #poll(Handler, int)}; if nothing is there, waits for the first message.
     *
     * @param handler takes messages and notices, in their order
     * @param limit items to take at most
     * @param patience the longest time to wait
     * @return items taken; 0 if nothing came in time
     * @throws InterruptedWaitException the thread was interrupted while it waited
     */
    public int poll(Handler handler, int limit, Duration patience) {
        checkLimit(handler, limit);
        long left = Waits.nanoseconds(patience);
        long begun = System.nanoTime();
        while (true) {
            checkReader(null);
            long waited = System.nanoTime() - begun;
            int taken = take(handler, limit, limit, Math.max(0, Math.min(left - waited, Waits.SLICE)));
            if (taken > 0 || waited >= left) {
                return taken;
            }
            Waits.checkInterrupt();
        }
    }

    private static void checkLimit(Handler handler, int limit) {
        Objects.requireNonNull(handler, "handler");
        if (limit < 1) {
            throw new IllegalArgumentException("a poll takes 1 item or more, not " + limit);
        }
    }

    private void checkReader(MessageStream reader) {
        if (stream != reader) {
            throw new IllegalStateException("this subscription is read by a stream");
        }
    }

    /** For the stream: takes one item, out of as many as a poll would take. */
    int takeOne(MessageStream reader, int most) {
        checkReader(reader);
        return take(reader, 1, most, 0);
    }

    /** Fills the buffer if it is empty, with so many items, and hands so many of them on. */
    private int take(Handler handler, int limit, int most, long nanoseconds) {
        if (!reading.compareAndSet(false, true)) {
            throw new IllegalStateException("this subscription is read by another poll");
        }
        try {
            if (position == end) {
                fill(most, nanoseconds);
            }
            return hand(handler, limit);
        } finally {
            reading.set(false);
        }
    }

    private void fill(int most, long nanoseconds) {
        long subscription = handle.enter();
        try {
            if (buffer == null) {
                grow(BUFFER);
            }
            position = end = 0;
            int used = Native.take(subscription, buffer, most, nanoseconds);
            if (used < 0) {
                grow(-used);
                used = Native.take(subscription, buffer, most, 0);
            }
            end = used;
        } finally {
            handle.leave();
        }
    }

    private void grow(int bytes) {
        buffer = ByteBuffer.allocateDirect(bytes);
        frame.wrap(buffer);
        message.wrap(buffer);
    }

    private int hand(Handler handler, int limit) {
        int handed = 0;
        while (position < end && handed < limit) {
            int at = position;
            position += frame.length(at);
            int kind = frame.kind(at);
            if (kind == Frame.MESSAGE) {
                handed++;
                message.show(at);
                handler.onMessage(message);
            } else if (kind == Frame.NAME) {
                frame.learn(at);
            } else {
                handed++;
                handler.onNotice(frame.notice(at));
            }
        }
        return handed;
    }

    // As a stream --------------------------------------------------------------

    /**
     * As {@link #stream(Executor)}, in the common pool.
     *
     * @return a stream for one subscriber
     */
    public Flow.Publisher<Received> stream() {
        return stream(ForkJoinPool.commonPool());
    }

    /**
     * Copies of messages, and notices between them in their order, as reactive streams have it: no more
     * than the subscriber has requested are taken, others wait in the queue. It ends when this process
     * shuts the node down, and everything was taken, or closes the subscription; another end is an error.
     *
     * <p>All streams of a node wait in one thread, which lives as long as there are some. It has the
     * executor call the subscriber: one that runs on its caller's thread would hold up the other streams.
     *
     * <p>From its subscriber's begin to its end or cancellation the stream alone reads the subscription.
     *
     * @param executor calls the subscriber
     * @return a stream for one subscriber
     */
    public Flow.Publisher<Received> stream(Executor executor) {
        return new MessageStream(this, waiter, executor);
    }

    /** Lets a stream read it; whether none does yet. */
    synchronized boolean begin(MessageStream reader) {
        if (stream != null) {
            return false;
        }
        stream = reader;
        return true;
    }

    /** Lets no stream read it. */
    synchronized void end(MessageStream reader) {
        if (stream == reader) {
            stream = null;
        }
    }

    /** Has a waiter told of it once it has something to take. */
    void watch(long nativeWaiter, long number) {
        long subscription = handle.enter();
        try {
            Native.watch(nativeWaiter, subscription, number);
        } finally {
            handle.leave();
        }
    }

    // Itself -------------------------------------------------------------------

    /**
     * The groups, names and patterns as they were given.
     *
     * @return the groups
     */
    public List<String> groups() {
        return groups;
    }

    /**
     * Messages dropped so far, because the queue was full.
     *
     * @return the number
     */
    public long dropped() {
        long subscription = handle.enter();
        try {
            return Native.dropped(subscription);
        } finally {
            handle.leave();
        }
    }

    /**
     * Messages that wait in the queue.
     *
     * @return the number
     */
    public long queued() {
        long subscription = handle.enter();
        try {
            return Native.queuedToRead(subscription);
        } finally {
            handle.leave();
        }
    }

    /**
     * Position behind the messages and notices that were handed over, the present one included, to go on
     * from in another process. To be asked for by the thread that reads, or while none does.
     *
     * @return the position; nothing without a past ({@link Start})
     */
    public Optional<Position> position() {
        int unread = 0;
        for (int at = position; at < end; at += frame.length(at)) {
            unread += frame.kind(at) == Frame.NAME ? 0 : 1;
        }
        long subscription = handle.enter();
        try {
            return Optional.ofNullable(Native.position(subscription, unread)).map(Position::new);
        } finally {
            handle.leave();
        }
    }

    /** Tells whether it was closed. */
    boolean isClosed() {
        return handle.isClosed();
    }

    /** Leaves the groups. A poll that waits ends with an error within a fifth of a second. */
    @Override
    public void close() {
        handle.close();
        MessageStream reader = stream;
        if (reader != null) {
            reader.signal();
        }
    }
}
