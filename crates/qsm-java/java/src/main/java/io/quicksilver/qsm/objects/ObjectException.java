package io.quicksilver.qsm.objects;

import io.quicksilver.qsm.QsmException;

/** A message is no object of the types asked for, or a value does not fit its type. */
public final class ObjectException extends QsmException {
    private static final long serialVersionUID = 1;
    private static final int OBJECT = 1705;

    /** Cause and remedy, without the number. */
    private final String text;

    ObjectException(String text) {
        super(OBJECT, text);
        this.text = text;
    }

    /** This error, within a type that is named. */
    ObjectException within(String place) {
        ObjectException placed = new ObjectException(place + ": " + text);
        placed.setStackTrace(getStackTrace());
        return placed;
    }
}
