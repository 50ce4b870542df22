package io.quicksilver.qsm;

import java.util.List;

/**
 * State of the receivers, as a flush found it.
 *
 * @param unserved receivers that are gone and not known to have everything, a line each
 * @param more further such receivers, of whom nothing exact is kept
 * @param away receivers that are away and lack something that is kept for them, a line each
 */
public record Flushed(List<String> unserved, long more, List<String> away) {
    /** Reads what the native part tells. */
    static Flushed of(String[] told) {
        int behind = 2 + Integer.parseInt(told[1]);
        List<String> lines = List.of(told);
        return new Flushed(
                lines.subList(2, behind), Long.parseLong(told[0]), lines.subList(behind, told.length));
    }

    /**
     * Tells whether every receiver is known to have everything.
     *
     * @return whether it is so
     */
    public boolean isComplete() {
        return unserved.isEmpty() && more == 0 && away.isEmpty();
    }
}
