package io.quicksilver.qsm;

import java.time.Duration;
import java.util.Objects;

/**
 * Bounds of what a keeper keeps of each group, and sends. What exceeds one goes, the oldest first.
 *
 * @param messages most messages of each sender; 0 for the default, 1,000
 * @param bytes most memory of all messages, bytes, with 96 bytes for each; 0 for the default, 64 MiB
 * @param age longest time for which a message is kept; zero for no limit
 * @param bytesPerSecond bytes a second that are sent to all that join; 0 for the default, 16 MiB
 */
public record Bounds(long messages, long bytes, Duration age, long bytesPerSecond) {
    /** The defaults. */
    public static final Bounds DEFAULT = new Bounds(0, 0, Duration.ZERO, 0);

    /**
     * Checks them.
     *
     * @param messages most messages of each sender; 0 for the default
     * @param bytes most memory of all messages, bytes; 0 for the default
     * @param age longest time for which a message is kept; zero for no limit
     * @param bytesPerSecond bytes a second that are sent; 0 for the default
     */
    public Bounds {
        Objects.requireNonNull(age, "age");
        if (messages < 0 || bytes < 0 || age.isNegative() || bytesPerSecond < 0) {
            throw new IllegalArgumentException("a keeper has bounds from 1 on, or 0 for the default");
        }
    }

    /**
     * These bounds with another one of messages.
     *
     * @param messages most messages of each sender
     * @return the bounds
     */
    public Bounds withMessages(long messages) {
        return new Bounds(messages, bytes, age, bytesPerSecond);
    }

    /**
     * These bounds with another one of memory.
     *
     * @param bytes most memory of all messages of a group, bytes
     * @return the bounds
     */
    public Bounds withBytes(long bytes) {
        return new Bounds(messages, bytes, age, bytesPerSecond);
    }

    /**
     * These bounds with another one of age.
     *
     * @param age longest time for which a message is kept
     * @return the bounds
     */
    public Bounds withAge(Duration age) {
        return new Bounds(messages, bytes, age, bytesPerSecond);
    }

    /**
     * These bounds with another rate.
     *
     * @param bytesPerSecond bytes a second that are sent to all that join
     * @return the bounds
     */
    public Bounds withBytesPerSecond(long bytesPerSecond) {
        return new Bounds(messages, bytes, age, bytesPerSecond);
    }
}
