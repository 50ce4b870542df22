package io.quicksilver.qsm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class FrameTest {
    /** Of a group's name, and of lost messages for this cause, one behind the other. */
    private static ByteBuffer frames(int cause) {
        ByteBuffer buffer = ByteBuffer.allocate(128).order(ByteOrder.LITTLE_ENDIAN);
        buffer.putInt(56).putInt(Frame.NAME).putInt(0).putInt(1).position(48);
        buffer.put((byte) 'g').position(56);
        buffer.putInt(48).putInt(Frame.LOST | cause << 8).putInt(0).putInt(0);
        buffer.putLong(7).putLong(1).putLong(3).putLong(5);
        return buffer;
    }

    @Test
    void aLossHasItsCause() {
        List<Cause> causes = new ArrayList<>();
        for (int cause = 0; cause < 8; cause++) {
            Frame frame = new Frame();
            frame.wrap(frames(cause));
            frame.learn(0);
            assertEquals(Frame.LOST, frame.kind(56));
            Notice.Lost lost = assertInstanceOf(Notice.Lost.class, frame.notice(56));
            assertEquals("g", lost.group());
            assertEquals(3, lost.missing());
            causes.add(lost.cause());
        }
        List<Cause> expected = new ArrayList<>(List.of(Cause.values()));
        expected.add(Cause.OTHER);
        assertEquals(expected, causes);
    }
}
