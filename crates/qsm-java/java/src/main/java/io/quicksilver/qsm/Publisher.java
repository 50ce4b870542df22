package io.quicksilver.qsm;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Objects;

/** Sends to one group. Any number of threads may use it. */
public final class Publisher implements AutoCloseable {
    private final Handle handle;
    private final String group;

    Publisher(long publisher, String group) {
        handle = Handle.of(this, publisher, Native::freePublisher);
        this.group = group;
    }

    /**
     * Sends a message, which is copied; waits while the queue is full.
     *
     * @param message the message
     * @throws ClosedException the node has ended
     * @throws InterruptedWaitException the thread was interrupted while it waited; nothing was sent
     */
    public void send(byte[] message) {
        send(message, 0, message.length);
    }

    /**
     * Sends a part of an array, as {@link #send(byte[])}.
     *
     * @param message an array that has the message
     * @param start where it begins
     * @param length its length, bytes
     */
    public void send(byte[] message, int start, int length) {
        while (!sendArray(message, start, length, Waits.SLICE)) {
            Waits.checkInterrupt();
        }
    }

    /**
     * Sends what is between a buffer's position and its limit, as {@link #send(byte[])}; neither is
     * moved. A direct buffer is copied once; it must not be written to meanwhile.
     *
     * @param message the message
     */
    public void send(ByteBuffer message) {
        while (!sendBuffer(message, Waits.SLICE)) {
            Waits.checkInterrupt();
        }
    }

    /**
     * Sends a message, which is copied, if there is room.
     *
     * @param message the message
     * @return whether there was room
     * @throws ClosedException the node has ended
     */
    public boolean trySend(byte[] message) {
        return sendArray(message, 0, message.length, 0);
    }

    /**
     * Sends a part of an array if there is room, as {@link #trySend(byte[])}.
     *
     * @param message an array that has the message
     * @param start where it begins
     * @param length its length, bytes
     * @return whether there was room
     */
    public boolean trySend(byte[] message, int start, int length) {
        return sendArray(message, start, length, 0);
    }

    /**
     * Sends what is between a buffer's position and its limit if there is room, as {@link
     * #trySend(byte[])}.
     *
     * @param message the message
     * @return whether there was room
     */
    public boolean trySend(ByteBuffer message) {
        return sendBuffer(message, 0);
    }

    private boolean sendArray(byte[] message, int start, int length, long nanoseconds) {
        Objects.checkFromIndexSize(start, length, message.length);
        long publisher = handle.enter();
        try {
            return Native.sendArray(publisher, message, start, length, nanoseconds);
        } finally {
            handle.leave();
        }
    }

    private boolean sendBuffer(ByteBuffer message, long nanoseconds) {
        int start = message.position();
        int length = message.remaining();
        if (message.hasArray()) {
            return sendArray(message.array(), message.arrayOffset() + start, length, nanoseconds);
        }
        if (!message.isDirect()) {
            byte[] copy = new byte[length];
            message.get(start, copy);
            return sendArray(copy, 0, length, nanoseconds);
        }
        long publisher = handle.enter();
        try {
            return Native.sendDirect(publisher, message, start, length, nanoseconds);
        } finally {
            handle.leave();
        }
    }

    /**
     * Waits until the group has so many receivers beside this node. An interrupt does not end it.
     *
     * @param count the number of receivers
     * @param limit the longest time to wait
     * @throws TimedOutException they did not come in time
     */
    public void awaitMembers(int count, Duration limit) {
        if (count < 0) {
            throw new IllegalArgumentException("a group has receivers from 0 on, not " + count);
        }
        long publisher = handle.enter();
        try {
            Native.awaitMembers(publisher, count, Waits.nanoseconds(limit));
        } finally {
            handle.leave();
        }
    }

    /**
     * Receivers of the group known now, beside this node.
     *
     * @return the number
     */
    public int members() {
        long publisher = handle.enter();
        try {
            return Native.members(publisher);
        } finally {
            handle.leave();
        }
    }

    /**
     * Messages that wait to be sent.
     *
     * @return the number
     */
    public long queued() {
        long publisher = handle.enter();
        try {
            return Native.queuedToSend(publisher);
        } finally {
            handle.leave();
        }
    }

    /**
     * Name of the group.
     *
     * @return the name
     */
    public String group() {
        return group;
    }

    /** Gives it up; what it accepted is sent all the same. */
    @Override
    public void close() {
        handle.close();
    }
}
