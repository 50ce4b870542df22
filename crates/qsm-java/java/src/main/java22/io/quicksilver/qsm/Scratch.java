package io.quicksilver.qsm;

import java.lang.foreign.MemorySegment;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Memory of a thread for calls that must make no objects. */
final class Scratch {
    /** Bytes of the longest message that is copied by way of it. */
    static final int MESSAGE = 16 << 10;

    private static final ThreadLocal<Scratch> OF_THREAD = ThreadLocal.withInitial(Scratch::new);

    /** A message on its way. */
    final ByteBuffer message = ByteBuffer.allocateDirect(MESSAGE);
    final long messageAt = address(message);
    /** Numbers that a call writes. */
    final ByteBuffer places = ByteBuffer.allocateDirect(2 * Long.BYTES).order(ByteOrder.nativeOrder());
    final long placesAt = address(places);

    private WeakReference<ByteBuffer> last = new WeakReference<>(null);
    private long lastAt;

    private Scratch() {}

    static Scratch get() {
        return OF_THREAD.get();
    }

    /** Where a direct buffer lies; it is found anew for another buffer only. */
    long addressOf(ByteBuffer buffer) {
        if (!last.refersTo(buffer)) {
            lastAt = address(buffer);
            last = new WeakReference<>(buffer);
        }
        return lastAt;
    }

    private static long address(ByteBuffer buffer) {
        return MemorySegment.ofBuffer(buffer.duplicate().clear()).address();
    }
}
