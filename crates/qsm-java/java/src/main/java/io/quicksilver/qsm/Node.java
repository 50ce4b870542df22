package io.quicksilver.qsm;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * A member of a cluster, of this process or attached to an engine of the host.
 *
 * <p>Any number of threads may use it. No thread of the library calls Java: programs take what has come
 * by themselves, and one that stands still fills its own queues and harms nobody.
 */
public final class Node implements AutoCloseable {
    /** The time that {@link #close()} gives what is left to be sent. */
    public static final Duration PATIENCE = Duration.ofSeconds(10);

    private final Handle handle;
    private final StreamWaiter waiter;

    private Node(long node) {
        handle = Handle.of(this, node, Native::freeNode);
        waiter = new StreamWaiter(id());
    }

    // Beginning ----------------------------------------------------------------

    /**
     * Begins to describe a node of this process.
     *
     * @return settings that are all defaults
     */
    public static Builder builder() {
        return new Builder();
    }

    /** Settings of a node to be started. */
    public static final class Builder {
        private final List<String> given = new ArrayList<>();

        private Builder() {}

        /**
         * Gives a setting, such as {@code set("cluster", "floor-2")} or {@code set("retention", "1G")}: one
         * of {@link Node#settings()}. The last value given counts.
         *
         * @param name the setting, as the command line has it
         * @param value a text, a number, or a {@code Boolean}
         * @return these settings
         */
        public Builder set(String name, Object value) {
            boolean flag = value instanceof Boolean;
            given.add(Objects.requireNonNull(name, "name"));
            given.add(flag ? ((Boolean) value ? "yes" : "no") : String.valueOf(value));
            return this;
        }

        /**
         * Starts a node with them.
         *
         * @return the node
         * @throws SettingException a setting is unknown, or does not take its value
         * @throws StartException the node cannot be started
         */
        public Node start() {
            return new Node(Native.start(given.toArray(String[]::new)));
        }
    }

    /**
     * All settings.
     *
     * @return names and meanings, with units and defaults
     */
    public static Map<String, String> settings() {
        String[] pairs = Native.settings();
        Map<String, String> settings = new LinkedHashMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            settings.put(pairs[index], pairs[index + 1]);
        }
        return settings;
    }

    /**
     * Attaches to the engine at a path ({@code qsm engine --at PATH}).
     *
     * @param engine the path
     * @return the node
     * @throws StartException there is no engine, or it does not take this process
     */
    public static Node attach(Path engine) {
        return new Node(Native.attach(engine.toString()));
    }

    /**
     * The library's version.
     *
     * @return the version, such as {@code 0.2.0}
     */
    public static String version() {
        return Native.version();
    }

    // Groups -------------------------------------------------------------------

    /**
     * Subscribes to groups.
     *
     * @param groups names, or patterns such as {@code prices/*}
     * @return the subscription
     */
    public Subscription subscribe(String... groups) {
        return subscribe(QueueLimits.DEFAULT, groups);
    }

    /**
     * Subscribes to groups with limits of its own.
     *
     * @param limits limits of the queue
     * @param groups names, or patterns such as {@code prices/*}
     * @return the subscription
     */
    public Subscription subscribe(QueueLimits limits, String... groups) {
        return subscribe(limits, Delivery.ORDERED, groups);
    }

    /**
     * Subscribes to groups with limits of its own, and another order.
     *
     * @param limits limits of the queue
     * @param delivery the order in which messages come
     * @param groups names, or patterns such as {@code prices/*}
     * @return the subscription
     */
    public Subscription subscribe(QueueLimits limits, Delivery delivery, String... groups) {
        List<String> names = List.of(groups);
        long node = handle.enter();
        try {
            long made = Native.subscribe(
                    node,
                    groups,
                    limits.bytes(),
                    limits.messages(),
                    limits.overflow().ordinal(),
                    delivery.code());
            return new Subscription(made, names, waiter);
        } finally {
            handle.leave();
        }
    }

    /**
     * Subscribes to groups, by name, with what was sent before.
     *
     * @param start the place from which messages begin
     * @param groups names
     * @return the subscription, which has a {@link Subscription#position()}
     */
    public Subscription subscribe(Start start, String... groups) {
        return subscribe(QueueLimits.DEFAULT, start, groups);
    }

    /**
     * Subscribes to groups, by name, with what was sent before, and limits of its own.
     *
     * @param limits limits of the queue of live messages
     * @param start the place from which messages begin
     * @param groups names
     * @return the subscription, which has a {@link Subscription#position()}
     */
    public Subscription subscribe(QueueLimits limits, Start start, String... groups) {
        List<String> names = List.of(groups);
        long node = handle.enter();
        try {
            long made = Native.subscribePast(
                    node,
                    groups,
                    limits.bytes(),
                    limits.messages(),
                    limits.overflow().ordinal(),
                    start.last(),
                    start.resume(),
                    start.heldBytes());
            return new Subscription(made, names, waiter);
        } finally {
            handle.leave();
        }
    }

    /**
     * Keeps the last messages of groups, by name, for those who join later, within {@link
     * Bounds#DEFAULT}.
     *
     * @param groups names
     * @return a keeper
     */
    public Keeper keep(String... groups) {
        return keep(Bounds.DEFAULT, groups);
    }

    /**
     * Keeps the last messages of groups, by name, for those who join later.
     *
     * @param bounds how much is kept of each group
     * @param groups names
     * @return a keeper
     */
    public Keeper keep(Bounds bounds, String... groups) {
        long age = Waits.nanoseconds(bounds.age());
        long node = handle.enter();
        try {
            return new Keeper(Native.keep(
                    node, groups, bounds.messages(), bounds.bytes(), age, bounds.bytesPerSecond()));
        } finally {
            handle.leave();
        }
    }

    /**
     * Opens the live map of a group, with {@link MapBounds#DEFAULT} if it turns out to be the first. A node has
     * one of a group at most.
     *
     * @param group name of the group
     * @return the map, whose state comes later: {@link LiveMap#awaitLive}
     */
    public LiveMap liveMap(String group) {
        return liveMap(MapBounds.DEFAULT, group);
    }

    /**
     * Opens the live map of a group.
     *
     * @param bounds its bounds, if it turns out to be the first
     * @param group name of the group
     * @return the map, whose state comes later: {@link LiveMap#awaitLive}
     */
    public LiveMap liveMap(MapBounds bounds, String group) {
        long node = handle.enter();
        try {
            return new LiveMap(Native.openMap(node, group, bounds.bytes(), bounds.removed()));
        } finally {
            handle.leave();
        }
    }

    /**
     * Opens the live log of a group, with {@link LogBounds#DEFAULT} if it turns out to be the first. A node has
     * one of a group at most.
     *
     * @param group name of the group
     * @return the log, whose state comes later: {@link LiveLog#awaitLive}
     */
    public LiveLog liveLog(String group) {
        return liveLog(LogBounds.DEFAULT, group);
    }

    /**
     * Opens the live log of a group.
     *
     * @param bounds its bounds, if it turns out to be the first
     * @param group name of the group
     * @return the log, whose state comes later: {@link LiveLog#awaitLive}
     */
    public LiveLog liveLog(LogBounds bounds, String group) {
        long node = handle.enter();
        try {
            return new LiveLog(Native.openLog(node, group, bounds.entries(), bounds.bytes()));
        } finally {
            handle.leave();
        }
    }

    /**
     * Makes a publisher.
     *
     * @param group name of the group
     * @return a publisher to it
     */
    public Publisher publisher(String group) {
        return publisher(group, -1, 0);
    }

    /**
     * Makes a publisher whose messages wait for others in their packet.
     *
     * @param group name of the group
     * @param batching how long they may wait
     * @return a publisher to it
     * @throws QsmException the node is attached: its engine packs the messages of all processes
     */
    public Publisher publisher(String group, Batching batching) {
        return publisher(group, Waits.nanoseconds(batching.delay()), batching.bytes());
    }

    private Publisher publisher(String group, long nanoseconds, long bytes) {
        long node = handle.enter();
        try {
            return new Publisher(Native.publisher(node, group, nanoseconds, bytes), group);
        } finally {
            handle.leave();
        }
    }

    // Waiting ------------------------------------------------------------------

    /**
     * Waits until the node is a member of its cluster. An interrupt does not end it.
     *
     * @param limit the longest time to wait
     * @throws TimedOutException it took longer
     */
    public void awaitAdmitted(Duration limit) {
        long node = handle.enter();
        try {
            Native.awaitAdmitted(node, Waits.nanoseconds(limit));
        } finally {
            handle.leave();
        }
    }

    /**
     * Waits until all live receivers have everything. An interrupt does not end it.
     *
     * @param limit the longest time to wait
     * @return who has not everything
     * @throws TimedOutException it took longer
     */
    public Flushed flush(Duration limit) {
        long node = handle.enter();
        try {
            return Flushed.of(Native.flush(node, Waits.nanoseconds(limit)));
        } finally {
            handle.leave();
        }
    }

    /**
     * Sends what is left, and ends the node: its subscriptions, publishers and readers of events say so from
     * then on. An interrupt does not end it.
     *
     * @param limit the longest time to wait
     * @return who has not everything
     */
    public Flushed shutdown(Duration limit) {
        long node = handle.enter();
        try {
            return Flushed.of(Native.shutdown(node, Waits.nanoseconds(limit)));
        } finally {
            handle.leave();
        }
    }

    // Itself -------------------------------------------------------------------

    /**
     * Begins to read events: those that come from now on.
     *
     * @return a reader
     */
    public Events events() {
        long node = handle.enter();
        try {
            return new Events(Native.events(node));
        } finally {
            handle.leave();
        }
    }

    /**
     * The node's number in its cluster, as {@code qsm nodes} shows it.
     *
     * @return the number, hexadecimal
     */
    public String id() {
        long node = handle.enter();
        try {
            return Native.nodeId(node);
        } finally {
            handle.leave();
        }
    }

    /**
     * Tells why the node has ended.
     *
     * @return the reason; nothing while it runs
     */
    public Optional<String> closed() {
        long node = handle.enter();
        try {
            return Optional.ofNullable(Native.closed(node));
        } finally {
            handle.leave();
        }
    }

    /**
     * Shuts the node down if it runs, within {@link #PATIENCE}, and gives it up. A node that is garbage
     * without that ends with its last subscription, publisher and reader of events; what is left is not
     * sent.
     */
    @Override
    public void close() {
        if (handle.isClosed()) {
            return;
        }
        try {
            if (closed().isEmpty()) {
                shutdown(PATIENCE);
            }
        } finally {
            handle.close();
        }
    }
}
