package io.quicksilver.qsm;

/** Why messages are lost. */
public enum Cause {
    /** Nobody has them any more. */
    GONE,
    /** They were sent while the node was excluded. */
    EXCLUDED,
    /** They were missing for longer than the subscription waits. */
    OVERDUE,
    /** They were missing when their lifetime was over. */
    EXPIRED,
    /** Of the past: nobody keeps the group, or no keeper answers. */
    NO_KEEPER,
    /** Of the past: more came live than there was room to hold while it was fetched. */
    HELD,
    /** Something that this version of the package has no name for. */
    OTHER
}
