package io.quicksilver.qsm;

/**
 * Bounds of a live map. Those of the program that founds it hold for all.
 *
 * @param bytes most bytes of keys and values, beyond which nobody may add to it; 0 for the default, 64 MiB
 * @param removed most keys that were removed and are remembered; 0 for the default, 65,536
 */
public record MapBounds(long bytes, long removed) {
    /** The defaults. */
    public static final MapBounds DEFAULT = new MapBounds(0, 0);

    /**
     * Checks them.
     *
     * @param bytes most bytes of keys and values; 0 for the default
     * @param removed most keys that were removed and are remembered; 0 for the default
     */
    public MapBounds {
        if (bytes < 0 || removed < 0) {
            throw new IllegalArgumentException("a map has bounds from 1 on, or 0 for the default");
        }
    }
}
