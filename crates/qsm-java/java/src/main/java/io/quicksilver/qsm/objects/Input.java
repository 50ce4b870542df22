package io.quicksilver.qsm.objects;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** A message that is being read from its front. */
final class Input {
    /** Objects within objects, at most. */
    private static final int DEPTH = 64;

    private final ByteBuffer message;
    private int depth;

    Input(ByteBuffer message) {
        this.message = message.slice().order(ByteOrder.LITTLE_ENDIAN);
    }

    private void need(int bytes) {
        if (bytes > message.remaining()) {
            throw new ObjectException("the message ends too early");
        }
    }

    byte take() {
        need(1);
        return message.get();
    }

    byte[] take(int length) {
        need(length);
        byte[] taken = new byte[length];
        message.get(taken);
        return taken;
    }

    float takeFloat() {
        need(Float.BYTES);
        return message.getFloat();
    }

    double takeDouble() {
        need(Double.BYTES);
        return message.getDouble();
    }

    /** An unsigned number of at most 64 bits. */
    long varint(int bits) {
        long number = 0;
        for (int shift = 0; shift < bits; shift += 7) {
            long low = take();
            if (shift + 7 > bits && (low & 0x7f) >>> (bits - shift) != 0) {
                break;
            }
            number |= (low & 0x7f) << shift;
            if (low >= 0) {
                return number;
            }
        }
        throw new ObjectException("a number has too many bits");
    }

    /** An unsigned number of more bits. */
    BigInteger bigVarint(int bits) {
        BigInteger number = BigInteger.ZERO;
        for (int shift = 0; shift < bits; shift += 7) {
            byte low = take();
            number = number.or(BigInteger.valueOf(low & 0x7f).shiftLeft(shift));
            if (low >= 0 && number.bitLength() <= bits) {
                return number;
            }
        }
        throw new ObjectException("a number has too many bits");
    }

    /** The number of items that follow: each has a byte at least. */
    int count() {
        long count = varint(64);
        if (count < 0 || count > message.remaining()) {
            throw new ObjectException("the message ends too early");
        }
        return (int) count;
    }

    void enter() {
        if (depth++ == DEPTH) {
            throw new ObjectException("objects within objects are too deep");
        }
    }

    void leave() {
        depth--;
    }

    void end() {
        if (message.hasRemaining()) {
            throw new ObjectException("the message goes on for " + message.remaining() + " bytes");
        }
    }
}
