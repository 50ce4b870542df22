package io.quicksilver.qsm;

import java.nio.charset.StandardCharsets;
import java.time.Instant;

/** A change of a live log, as {@link LiveLog#poll} tells it. */
public sealed interface LogEvent {
    /**
     * An entry.
     *
     * @param time when it was written, by its writer's clock
     * @param writer number of its writer, by chance
     * @param content its content
     */
    record Entry(Instant time, long writer, byte[] content) implements LogEvent {
        /**
         * The content as text.
         *
         * @return the text, of UTF-8
         */
        public String text() {
            return new String(content, StandardCharsets.UTF_8);
        }
    }

    /**
     * Entries came and had to go before they were taken.
     *
     * @param entries their number
     */
    record Missed(long entries) implements LogEvent {}
}
