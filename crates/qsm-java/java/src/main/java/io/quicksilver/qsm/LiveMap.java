package io.quicksilver.qsm;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * A map of texts to bytes that several programs have alike, until it is closed or garbage.
 *
 * <p>Its state comes after it was opened: {@link #awaitLive}. Before, and while it binds anew, writing throws
 * {@link NotLiveException}, and reading gives what it has.
 *
 * <p>A write is in this map at once, and in the others when it comes; {@link Node#flush} says when it is in
 * all. Of several writes to a key the last one stays everywhere. One that was made just before this map bound
 * anew may be lost, here as well.
 *
 * <p>Any number of threads may use it; one at a time polls it.
 */
public final class LiveMap implements AutoCloseable {
    private final Handle handle;

    LiveMap(long map) {
        handle = Handle.of(this, map, Native::freeMap);
    }

    // Its state -----------------------------------------------------------------

    /**
     * Waits until it is live: its state is that of the others, and follows every change.
     *
     * @param limit the longest time to wait
     * @return this map
     * @throws NotLiveException it took longer
     * @throws QsmException it has ended; the text says why
     * @throws InterruptedWaitException the thread was interrupted while it waited
     */
    public LiveMap awaitLive(Duration limit) {
        Waits.untilLive(handle, limit, Native::awaitLive);
        return this;
    }

    // Entries -------------------------------------------------------------------

    /**
     * Sets the value of a key. It waits only where the queue to the node is full.
     *
     * @param key the key, 1024 bytes of UTF-8 at most
     * @param value the value, which is copied
     * @throws NotLiveException it is not live
     * @throws LimitException the map would become larger than its bound, or the key is too long
     */
    public void put(String key, byte[] value) {
        Objects.requireNonNull(value, "value");
        long map = handle.enter();
        try {
            Native.put(map, key, value);
        } finally {
            handle.leave();
        }
    }

    /**
     * Sets the value of a key to a text, as UTF-8.
     *
     * @param key the key
     * @param text the text
     */
    public void put(String key, String text) {
        put(key, text.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Removes a key, if it is there.
     *
     * @param key the key
     * @throws NotLiveException it is not live
     */
    public void remove(String key) {
        long map = handle.enter();
        try {
            Native.remove(map, key);
        } finally {
            handle.leave();
        }
    }

    /**
     * The value of a key.
     *
     * @param key the key
     * @return a copy; nothing if the key has none
     */
    public Optional<byte[]> get(String key) {
        long map = handle.enter();
        try {
            return Optional.ofNullable(Native.get(map, key));
        } finally {
            handle.leave();
        }
    }

    /**
     * The value of a key as text.
     *
     * @param key the key
     * @return the text, of UTF-8; nothing if the key has no value
     */
    public Optional<String> text(String key) {
        return get(key).map(value -> new String(value, StandardCharsets.UTF_8));
    }

    /**
     * All entries of one moment.
     *
     * @return copies, in the order of their keys
     */
    public SortedMap<String, byte[]> snapshot() {
        Object[] pairs;
        long map = handle.enter();
        try {
            pairs = Native.entries(map);
        } finally {
            handle.leave();
        }
        SortedMap<String, byte[]> entries = new TreeMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            entries.put((String) pairs[index], (byte[]) pairs[index + 1]);
        }
        return entries;
    }

    /**
     * Number of entries.
     *
     * @return the number
     */
    public int size() {
        long map = handle.enter();
        try {
            return Math.toIntExact(Native.mapSize(map));
        } finally {
            handle.leave();
        }
    }

    // Changes -------------------------------------------------------------------

    /**
     * Takes what has changed: at first the entries that are there, then what changes, its own writes as well.
     * If there is nothing, waits for the first change. Of several changes to a key that were not taken the last
     * one is told, so a program that does not poll costs no memory and delays nobody.
     *
     * @param limit changes to take at most
     * @param patience the longest time to wait
     * @return the changes; none if none came in time
     * @throws ClosedException the node has ended, and everything was taken
     * @throws InterruptedWaitException the thread was interrupted while it waited
     */
    public List<MapChange> poll(int limit, Duration patience) {
        return changes(Waits.polled(handle, limit, patience, Native::changes));
    }

    private static List<MapChange> changes(Object[] pairs) {
        List<MapChange> changes = new ArrayList<>(pairs.length / 2);
        for (int index = 0; index < pairs.length; index += 2) {
            String key = (String) pairs[index];
            byte[] value = (byte[]) pairs[index + 1];
            if (key == null) {
                changes.add(new MapChange.Restart());
            } else if (value == null) {
                changes.add(new MapChange.Removed(key));
            } else {
                changes.add(new MapChange.Set(key, value));
            }
        }
        return changes;
    }

    // Itself --------------------------------------------------------------------

    /**
     * Its counters since it was opened; the guide to replicas describes them.
     *
     * @return an object of JSON
     */
    public String stats() {
        long map = handle.enter();
        try {
            return Native.mapStats(map);
        } finally {
            handle.leave();
        }
    }

    /** Leaves the map. A poll that waits ends with an error within a fifth of a second. */
    @Override
    public void close() {
        handle.close();
    }
}
