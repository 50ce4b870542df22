package io.quicksilver.qsm;

/** The policy of a full queue. */
public enum Overflow {
    /** The message that finds no room is dropped. */
    DROP_NEWEST,
    /** The oldest messages are dropped to make room. */
    DROP_OLDEST,
    /** The subscription ends. */
    DISCONNECT,
    /** Nothing is dropped: publishers to the groups wait, as their pace says. */
    HOLD
}
