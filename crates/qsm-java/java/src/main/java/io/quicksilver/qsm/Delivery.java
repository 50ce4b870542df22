package io.quicksilver.qsm;

import java.time.Duration;

/** The order in which messages come, and how long they wait for each other. */
public final class Delivery {
    /** In each sender's order; what is missing is waited for. */
    public static final Delivery ORDERED = new Delivery(-1);
    /** As messages arrive. */
    public static final Delivery ARRIVAL = new Delivery(-2);

    private final long code;

    private Delivery(long code) {
        this.code = code;
    }

    /**
     * In each sender's order, but nothing is waited for longer than this; what comes later is told as
     * lost.
     *
     * @param longest the longest wait for what is missing
     * @return the way of delivery
     */
    public static Delivery within(Duration longest) {
        return new Delivery(Waits.nanoseconds(longest));
    }

    long code() {
        return code;
    }
}
