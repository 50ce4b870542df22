package io.quicksilver.qsm;

/**
 * Bounds of a live log, of which the newest entries stay. Those of the program that founds it hold for all.
 *
 * @param entries most entries; 0 for the default, 10,000
 * @param bytes most bytes of entries; 0 for the default, 16 MiB
 */
public record LogBounds(long entries, long bytes) {
    /** The defaults. */
    public static final LogBounds DEFAULT = new LogBounds(0, 0);

    /**
     * Checks them.
     *
     * @param entries most entries; 0 for the default
     * @param bytes most bytes of entries; 0 for the default
     */
    public LogBounds {
        if (entries < 0 || bytes < 0) {
            throw new IllegalArgumentException("a log has bounds from 1 on, or 0 for the default");
        }
    }
}
