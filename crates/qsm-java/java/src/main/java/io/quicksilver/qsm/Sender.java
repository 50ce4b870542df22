package io.quicksilver.qsm;

/**
 * A node in one of its lives, which sent a message.
 *
 * @param node its number in the cluster, unsigned
 * @param life the number of its life
 */
public record Sender(long node, long life) {
    /** As everywhere, such as {@code 34a45c19b27e9e00.7}. */
    @Override
    public String toString() {
        return Long.toHexString(node) + "." + life;
    }
}
