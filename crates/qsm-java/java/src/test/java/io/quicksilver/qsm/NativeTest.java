package io.quicksilver.qsm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class NativeTest {
    /** Which class is there decides the jar, by the version of Java. */
    @Test
    void callsAreMadeInTheWayThatIsExpected() {
        assertEquals(System.getProperty("qsm.way", "JNI"), Native.way());
    }
}
