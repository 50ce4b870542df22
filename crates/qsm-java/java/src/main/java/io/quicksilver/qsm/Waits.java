package io.quicksilver.qsm;

import java.time.Duration;

/** Times of waiting. Long ones are waited for in slices, so that interrupts and closing end them. */
final class Waits {
    /** The longest that an interrupt is not seen, nanoseconds. */
    static final long SLICE = 200_000_000;

    private Waits() {}

    /** Nanoseconds of a time; the longest there are of longer ones. */
    static long nanoseconds(Duration time) {
        if (time.isNegative()) {
            throw new IllegalArgumentException(time + " is no time to wait; give one from 0 on");
        }
        try {
            return time.toNanos();
        } catch (ArithmeticException longer) {
            return Long.MAX_VALUE;
        }
    }

    /** Waits so long for a live object. */
    interface Live {
        void await(long object, long nanoseconds);
    }

    /** Takes changes of a live object, and waits so long for the first. */
    interface Taker {
        Object[] take(long object, int most, long nanoseconds);
    }

    /** Waits until a live object has its state. */
    static void untilLive(Handle handle, Duration limit, Live live) {
        long left = nanoseconds(limit);
        long begun = System.nanoTime();
        while (true) {
            long waited = System.nanoTime() - begun;
            long object = handle.enter();
            try {
                live.await(object, Math.max(0, Math.min(left - waited, SLICE)));
                return;
            } catch (NotLiveException error) {
                if (waited >= left) {
                    throw error;
                }
            } finally {
                handle.leave();
            }
            checkInterrupt();
        }
    }

    /** Changes of a live object; none if none came in time. */
    static Object[] polled(Handle handle, int limit, Duration patience, Taker taker) {
        if (limit < 1) {
            throw new IllegalArgumentException("a poll takes 1 change or more, not " + limit);
        }
        long left = nanoseconds(patience);
        long begun = System.nanoTime();
        while (true) {
            long waited = System.nanoTime() - begun;
            Object[] pairs;
            long object = handle.enter();
            try {
                pairs = taker.take(object, limit, Math.max(0, Math.min(left - waited, SLICE)));
            } finally {
                handle.leave();
            }
            if (pairs.length > 0 || waited >= left) {
                return pairs;
            }
            checkInterrupt();
        }
    }

    /** Throws if the thread was interrupted, and leaves it so. */
    static void checkInterrupt() {
        if (Thread.currentThread().isInterrupted()) {
            throw new InterruptedWaitException();
        }
    }
}
