package io.quicksilver.qsm;

import java.time.Duration;
import java.util.Objects;

/**
 * How long messages of a publisher may wait for others in their packet. The message that may wait
 * least decides when its packet leaves; a full packet never waits.
 *
 * @param delay the longest wait
 * @param bytes length from which on a packet does not wait, bytes, its header included; 0 for that
 *     of a full one
 */
public record Batching(Duration delay, long bytes) {
    /**
     * Checks it.
     *
     * @param delay the longest wait
     * @param bytes length from which on a packet does not wait, bytes; 0 for that of a full one
     */
    public Batching {
        Objects.requireNonNull(delay, "delay");
        if (delay.isNegative() || bytes < 0) {
            throw new IllegalArgumentException("a packet waits for a time and a length from 0 on");
        }
    }

    /**
     * A wait until a packet is full, or for so long.
     *
     * @param delay the longest wait
     * @return the limits
     */
    public static Batching within(Duration delay) {
        return new Batching(delay, 0);
    }

    /**
     * The same time, with a length from which on a packet does not wait.
     *
     * @param bytes the length, bytes, the packet's header included
     * @return the limits
     */
    public Batching withBytes(long bytes) {
        return new Batching(delay, bytes);
    }
}
