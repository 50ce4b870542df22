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

    /** Throws if the thread was interrupted, and leaves it so. */
    static void checkInterrupt() {
        if (Thread.currentThread().isInterrupted()) {
            throw new InterruptedWaitException();
        }
    }
}
