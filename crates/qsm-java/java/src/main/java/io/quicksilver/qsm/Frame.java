package io.quicksilver.qsm;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Places of fields in a frame of the native part; {@code frame.rs} has the layout. */
final class Frame {
    static final int HEAD = 48;

    static final int NAME = 0;
    static final int MESSAGE = 1;
    static final int LOST = 2;
    static final int LOST_PACKETS = 3;
    static final int DROPPED = 4;
    static final int BACK = 5;
    static final int EXCLUDED = 6;
    static final int NOT_KEPT = 8;
    static final int JOINED = 9;

    private static final int KIND = 4;
    private static final int GROUP = 8;
    private static final int CONTENT_LENGTH = 12;
    private static final int NODE = 16;
    private static final int LIFE = 24;
    private static final int NUMBER = 32;
    private static final int LAST = 40;

    private final List<String> names = new ArrayList<>();
    private ByteBuffer buffer;

    /** Reads this buffer from now on. */
    void wrap(ByteBuffer buffer) {
        this.buffer = buffer.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    }

    int length(int at) {
        return buffer.getInt(at);
    }

    int kind(int at) {
        return buffer.getInt(at + KIND) & 0xff;
    }

    int contentLength(int at) {
        return buffer.getInt(at + CONTENT_LENGTH);
    }

    long node(int at) {
        return buffer.getLong(at + NODE);
    }

    long life(int at) {
        return buffer.getLong(at + LIFE);
    }

    long number(int at) {
        return buffer.getLong(at + NUMBER);
    }

    String group(int at) {
        return names.get(buffer.getInt(at + GROUP));
    }

    /** Learns the name that a frame tells. */
    void learn(int at) {
        if (buffer.getInt(at + GROUP) == 0) {
            names.clear();
        }
        names.add(text(at));
    }

    Notice notice(int at) {
        String text = text(at);
        long last = buffer.getLong(at + LAST);
        return switch (kind(at)) {
            case LOST -> new Notice.Lost(group(at), sender(at), number(at), last, cause(at), text);
            case LOST_PACKETS -> new Notice.LostPackets(sender(at), last, text);
            case DROPPED -> new Notice.Dropped(last, text);
            case BACK -> new Notice.Back(Duration.ofNanos(last), text);
            case EXCLUDED -> new Notice.Excluded(last, text);
            case NOT_KEPT ->
                new Notice.NotKept(group(at), sender(at), number(at), last, cause(at), text);
            case JOINED -> new Notice.Joined(group(at), number(at), last, node(at), text);
            default -> new Notice.Other(text);
        };
    }

    private Cause cause(int at) {
        Cause[] causes = Cause.values();
        int cause = buffer.getInt(at + KIND) >> 8;
        return causes[Math.min(cause, causes.length - 1)];
    }

    Sender sender(int at) {
        return new Sender(node(at), life(at));
    }

    byte[] content(int at) {
        byte[] copy = new byte[contentLength(at)];
        buffer.get(at + HEAD, copy);
        return copy;
    }

    private String text(int at) {
        return new String(content(at), StandardCharsets.UTF_8);
    }
}
