package io.quicksilver.qsm;

/**
 * An event of a node.
 *
 * @param kind the kind, such as {@code Admitted}: the names are those of Rust's {@code qsm::Event}
 * @param text one line for people
 */
public record Event(String kind, String text) {
    /** Kind of the last event of a node. */
    public static final String CLOSED = "Closed";
}
