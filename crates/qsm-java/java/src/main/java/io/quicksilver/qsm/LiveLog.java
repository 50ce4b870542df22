package io.quicksilver.qsm;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * A log of the newest entries that several programs write and have alike, until it is closed or garbage.
 *
 * <p>Its state comes after it was opened, as that of a {@link LiveMap}. An entry is in this log at once, and in
 * the others when it comes; an entry of a writer who has seen another one is behind that, in all of them.
 *
 * <p>Any number of threads may use it; one at a time polls it.
 */
public final class LiveLog implements AutoCloseable {
    private final Handle handle;

    LiveLog(long log) {
        handle = Handle.of(this, log, Native::freeLog);
    }

    /**
     * Waits until it is live: its state is that of the others, and follows every entry.
     *
     * @param limit the longest time to wait
     * @return this log
     * @throws NotLiveException it took longer
     * @throws QsmException it has ended; the text says why
     * @throws InterruptedWaitException the thread was interrupted while it waited
     */
    public LiveLog awaitLive(Duration limit) {
        Waits.untilLive(handle, limit, Native::awaitLogLive);
        return this;
    }

    /**
     * Appends an entry. It waits only where the queue to the node is full.
     *
     * @param content its content, which is copied
     * @throws NotLiveException it is not live
     * @throws LimitException the entry is longer than the log may be
     */
    public void append(byte[] content) {
        Objects.requireNonNull(content, "content");
        long log = handle.enter();
        try {
            Native.append(log, content);
        } finally {
            handle.leave();
        }
    }

    /**
     * Appends a text, as UTF-8.
     *
     * @param text the text
     */
    public void append(String text) {
        append(text.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * All entries of one moment.
     *
     * @return copies, the oldest first
     */
    public List<LogEvent.Entry> snapshot() {
        Object[] pairs;
        long log = handle.enter();
        try {
            pairs = Native.logEntries(log);
        } finally {
            handle.leave();
        }
        List<LogEvent.Entry> entries = new ArrayList<>(pairs.length / 2);
        for (int index = 0; index < pairs.length; index += 2) {
            entries.add(entry((long[]) pairs[index], (byte[]) pairs[index + 1]));
        }
        return entries;
    }

    /**
     * Number of entries.
     *
     * @return the number
     */
    public int size() {
        long log = handle.enter();
        try {
            return Math.toIntExact(Native.logSize(log));
        } finally {
            handle.leave();
        }
    }

    /**
     * Takes what has come: at first the entries that are there, then those that come, its own as well, in the
     * order in which they come here. If there is nothing, waits for the first. Entries that had to go before they
     * were taken are counted, so a program that does not poll costs no memory and delays nobody.
     *
     * @param limit events to take at most
     * @param patience the longest time to wait
     * @return the events; none if none came in time
     * @throws ClosedException the node has ended, and everything was taken
     * @throws InterruptedWaitException the thread was interrupted while it waited
     */
    public List<LogEvent> poll(int limit, Duration patience) {
        Object[] pairs = Waits.polled(handle, limit, patience, Native::logEvents);
        List<LogEvent> events = new ArrayList<>(pairs.length / 2);
        for (int index = 0; index < pairs.length; index += 2) {
            long[] numbers = (long[]) pairs[index];
            byte[] content = (byte[]) pairs[index + 1];
            events.add(content == null ? new LogEvent.Missed(numbers[0]) : entry(numbers, content));
        }
        return events;
    }

    private static LogEvent.Entry entry(long[] numbers, byte[] content) {
        Instant time = Instant.EPOCH.plus(numbers[0], ChronoUnit.MICROS);
        return new LogEvent.Entry(time, numbers[1], content);
    }

    /**
     * Its counters since it was opened; the guide to replicas describes them.
     *
     * @return an object of JSON
     */
    public String stats() {
        long log = handle.enter();
        try {
            return Native.logStats(log);
        } finally {
            handle.leave();
        }
    }

    /** Leaves the log. A poll that waits ends with an error within a fifth of a second. */
    @Override
    public void close() {
        handle.close();
    }
}
