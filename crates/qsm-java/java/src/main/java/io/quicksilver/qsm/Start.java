package io.quicksilver.qsm;

/**
 * Place from which messages begin, as far as keepers have what was sent before. Of each sender they come
 * in their order; what is not kept is told in its place.
 */
public final class Start {
    private final long last;
    private final Position position;
    private final long heldBytes;

    private Start(long last, Position position, long heldBytes) {
        this.last = last;
        this.position = position;
        this.heldBytes = heldBytes;
    }

    /**
     * Begins with the last messages of each sender.
     *
     * @param messages so many of each; 0 begins now
     * @return the place
     */
    public static Start last(long messages) {
        if (messages < 0) {
            throw new IllegalArgumentException("the past has 0 messages or more, not " + messages);
        }
        return new Start(messages, null, 0);
    }

    /**
     * Goes on behind a position; of senders that it does not know, with their first message.
     *
     * @param position the position
     * @return the place
     */
    public static Start resume(Position position) {
        return new Start(0, java.util.Objects.requireNonNull(position, "position"), 0);
    }

    /**
     * The same place with another limit of memory.
     *
     * @param bytes most memory of live messages that wait for older ones, bytes, of each group; 0 for the
     *     default, 64 MiB
     * @return the place
     */
    public Start withHeldBytes(long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException("memory has 0 bytes or more, not " + bytes);
        }
        return new Start(last, position, bytes);
    }

    long last() {
        return last;
    }

    /** The position's text; null for none. */
    String resume() {
        return position == null ? null : position.text();
    }

    long heldBytes() {
        return heldBytes;
    }
}
