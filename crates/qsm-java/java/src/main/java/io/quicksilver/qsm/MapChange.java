package io.quicksilver.qsm;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Objects;

/** A change of a live map, as {@link LiveMap#poll} tells it. */
public sealed interface MapChange {
    /**
     * A key has this value now.
     *
     * @param key the key
     * @param value the value
     */
    record Set(String key, byte[] value) implements MapChange {
        /**
         * The value as text.
         *
         * @return the text, of UTF-8
         */
        public String text() {
            return new String(value, StandardCharsets.UTF_8);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Set set && key.equals(set.key) && Arrays.equals(value, set.value);
        }

        @Override
        public int hashCode() {
            return Objects.hash(key, Arrays.hashCode(value));
        }
    }

    /**
     * A key is gone.
     *
     * @param key the key
     */
    record Removed(String key) implements MapChange {}

    /** Entries went unseen: those that follow are all there are. */
    record Restart() implements MapChange {}
}
