package io.quicksilver.qsm;

import java.time.Duration;
import java.util.Optional;

/** A reader of a node's events: those that came since it was made. One thread reads it at a time. */
public final class Events implements AutoCloseable {
    private final Handle handle;

    Events(long events) {
        handle = Handle.of(this, events, Native::freeEvents);
    }

    /**
     * Waits for the next event. The last one is of kind {@link Event#CLOSED}.
     *
     * @param limit the longest time to wait; zero does not wait
     * @return the event, or nothing if there was none in time
     * @throws ClosedException no more will come
     * @throws InterruptedWaitException the thread was interrupted
     */
    public Optional<Event> next(Duration limit) {
        long left = Waits.nanoseconds(limit);
        long begun = System.nanoTime();
        while (true) {
            long waited = System.nanoTime() - begun;
            Event event = take(Math.max(0, Math.min(left - waited, Waits.SLICE)));
            if (event != null || waited >= left) {
                return Optional.ofNullable(event);
            }
            Waits.checkInterrupt();
        }
    }

    private Event take(long nanoseconds) {
        long events = handle.enter();
        try {
            String[] told = Native.nextEvent(events, nanoseconds);
            return told == null ? null : new Event(told[0], told[1]);
        } finally {
            handle.leave();
        }
    }

    /** Reads no more of them. */
    @Override
    public void close() {
        handle.close();
    }
}
