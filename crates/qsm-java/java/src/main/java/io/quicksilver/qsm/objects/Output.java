package io.quicksilver.qsm.objects;

import java.io.ByteArrayOutputStream;
import java.math.BigInteger;

/** A message that is being written. */
final class Output {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

    void put(int one) {
        bytes.write(one);
    }

    void put(byte[] all) {
        bytes.writeBytes(all);
    }

    /** The lowest bits first, so many bytes. */
    void fixed(long number, int count) {
        for (int shift = 0; shift < 8 * count; shift += 8) {
            put((int) (number >>> shift));
        }
    }

    /** An unsigned number, seven bits a byte. */
    void varint(long number) {
        while (number < 0 || number >= 0x80) {
            put((int) number | 0x80);
            number >>>= 7;
        }
        put((int) number);
    }

    /** As {@link #varint(long)}, of any length. */
    void varint(BigInteger number) {
        while (number.bitLength() > 7) {
            put(number.intValue() | 0x80);
            number = number.shiftRight(7);
        }
        put(number.intValue());
    }

    byte[] toBytes() {
        return bytes.toByteArray();
    }
}
