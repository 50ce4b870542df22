package io.quicksilver.qsm.objects;

/** The form of a Java type in a message. */
interface Codec {
    void write(Object value, Output output);

    Object read(Input input);

    /** Refuses null, which has no form. */
    static void checkPresent(Object value) {
        if (value == null) {
            throw new ObjectException("null has no form; use an Optional");
        }
    }
}
