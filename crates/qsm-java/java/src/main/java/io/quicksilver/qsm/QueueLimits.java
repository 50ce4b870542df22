package io.quicksilver.qsm;

/**
 * Limits of a subscription's queue.
 *
 * @param bytes most memory of messages that wait, bytes; 0 for the default, 64 MiB
 * @param messages most messages that wait; 0 for no limit
 * @param overflow the policy of a full queue
 */
public record QueueLimits(long bytes, long messages, Overflow overflow) {
    /** 64 MiB; what finds no room is dropped. */
    public static final QueueLimits DEFAULT = new QueueLimits(0, 0, Overflow.DROP_NEWEST);

    /**
     * Checks them.
     *
     * @param bytes most memory of messages that wait, bytes; 0 for the default
     * @param messages most messages that wait; 0 for no limit
     * @param overflow the policy of a full queue
     */
    public QueueLimits {
        if (bytes < 0 || messages < 0) {
            throw new IllegalArgumentException("a queue has limits from 1 on, or 0 for the default");
        }
        java.util.Objects.requireNonNull(overflow, "overflow");
    }

    /**
     * These limits with another one of memory.
     *
     * @param bytes most memory of messages that wait, bytes
     * @return the limits
     */
    public QueueLimits withBytes(long bytes) {
        return new QueueLimits(bytes, messages, overflow);
    }

    /**
     * These limits with another one of messages.
     *
     * @param messages most messages that wait
     * @return the limits
     */
    public QueueLimits withMessages(long messages) {
        return new QueueLimits(bytes, messages, overflow);
    }

    /**
     * These limits with another policy.
     *
     * @param overflow the policy of a full queue
     * @return the limits
     */
    public QueueLimits withOverflow(Overflow overflow) {
        return new QueueLimits(bytes, messages, overflow);
    }
}
