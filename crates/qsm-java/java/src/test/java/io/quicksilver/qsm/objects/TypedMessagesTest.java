package io.quicksilver.qsm.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class TypedMessagesTest {
    enum Side {
        BUY,
        SELL
    }

    record Level(double price, @As(Form.U32) long size) {}

    @Typed(value = 300, version = 3)
    record Everything(
            boolean yes,
            @As(Form.U8) short small,
            @As(Form.U64) long wide,
            @As(Form.U128) BigInteger widest,
            byte tiny,
            long signed,
            @As(Form.I128) BigInteger lowest,
            float shorter,
            double longer,
            String text,
            byte[] data,
            Optional<String> note,
            Optional<String> nothing,
            List<Level> levels,
            Map<String, @As(Form.U16) Integer> sizes,
            Side side) {}

    @Typed(7)
    record Small(@As(Form.U16) int number) {}

    @Typed(8)
    record Chain(Optional<Chain> next) {}

    private static Everything everything() {
        Map<String, Integer> sizes = new LinkedHashMap<>();
        sizes.put("a", 1);
        sizes.put("b", 65535);
        return new Everything(
                true,
                (short) 200,
                -1,
                BigInteger.ONE.shiftLeft(128).subtract(BigInteger.ONE),
                Byte.MIN_VALUE,
                Long.MIN_VALUE,
                BigInteger.ONE.shiftLeft(127).negate(),
                1.5f,
                -0.1,
                "grün",
                new byte[] {0, -1},
                Optional.of("n"),
                Optional.empty(),
                List.of(new Level(0.5, 300), new Level(-1.0, 0)),
                sizes,
                Side.SELL);
    }

    /** Written by the tests of qsm-object. */
    private static byte[] golden() throws Exception {
        Path file = Path.of(System.getProperty("qsm.golden"));
        return HexFormat.of().parseHex(Files.readString(file).strip());
    }

    @Test
    void theBytesAreThoseOfRust() throws Exception {
        assertArrayEquals(golden(), TypedMessages.encode(everything()));
        Everything read = TypedMessages.decode(golden(), Everything.class);
        assertArrayEquals(everything().data(), read.data());
        assertEquals(withoutData(everything()), withoutData(read));
    }

    /** Arrays are not compared by records. */
    private static List<Object> withoutData(Everything all) {
        return List.of(
                all.yes, all.small, all.wide, all.widest, all.tiny, all.signed, all.lowest, all.shorter,
                all.longer, all.text, all.note, all.nothing, all.levels, all.sizes, all.side);
    }

    @Test
    void aDirectBufferIsReadWhereItIs() throws Exception {
        byte[] message = TypedMessages.encode(new Small(300));
        ByteBuffer buffer = ByteBuffer.allocateDirect(20).put(5, message).position(5);
        buffer.limit(5 + message.length);
        assertEquals(new Small(300), TypedMessages.decode(buffer, Small.class));
        assertEquals(5, buffer.position());
        Record one = TypedMessages.decode(buffer, List.of(Chain.class, Small.class));
        assertInstanceOf(Small.class, one);
    }

    @Test
    void aMessageThatIsCutShortOrLongIsRefused() throws Exception {
        byte[] message = golden();
        for (int length = 0; length < message.length; length++) {
            byte[] cut = Arrays.copyOf(message, length);
            assertThrows(ObjectException.class, () -> TypedMessages.decode(cut, Everything.class));
        }
        byte[] longer = Arrays.copyOf(message, message.length + 1);
        assertRefused("Everything v3: the message goes on for 1 bytes", longer, Everything.class);
    }

    private static void assertRefused(String said, byte[] message, Class<? extends Record> type) {
        ObjectException error =
                assertThrows(ObjectException.class, () -> TypedMessages.decode(message, type));
        assertTrue(error.getMessage().startsWith(said), error.getMessage());
        assertEquals(1705, error.code());
    }

    @Test
    void whatIsNoObjectIsNamed() {
        assertRefused("no object", new byte[0], Small.class);
        byte[] wide = new byte[9];
        Arrays.fill(wide, (byte) -1);
        assertRefused("no object", wide, Small.class);
        assertRefused("type 7 v2 is not known, but Small (7 v1)", new byte[] {7, 2, 0}, Small.class);
        assertRefused(
                "Small v1: a number has too many bits", new byte[] {7, 1, -1, -1, 4}, Small.class);
    }

    @Test
    void numbersAtTheirLimitsComeBack() {
        assertAll(Byte.MIN_VALUE, Short.MIN_VALUE, Integer.MIN_VALUE, Long.MIN_VALUE, 0, 0);
        assertAll(Byte.MAX_VALUE, Short.MAX_VALUE, Integer.MAX_VALUE, Long.MAX_VALUE, 0xffffffffL, -1);
        assertAll((byte) -1, (short) -1, -1, -1, 1, 1L << 63);
    }

    @Typed(9)
    record Numbers(
            byte b, short s, int i, long l, @As(Form.U32) long u, @As(Form.U64) long w,
            @As(Form.U64) BigInteger big, @As(Form.I64) BigInteger signed) {}

    private static void assertAll(byte b, short s, int i, long l, long u, long w) {
        BigInteger big = new BigInteger(Long.toUnsignedString(w));
        Numbers numbers = new Numbers(b, s, i, l, u, w, big, BigInteger.valueOf(l));
        assertEquals(numbers, TypedMessages.decode(TypedMessages.encode(numbers), Numbers.class));
    }

    @Test
    void aValueThatDoesNotFitIsNamed() {
        for (int number : new int[] {-1, 65536}) {
            ObjectException error = assertThrows(
                    ObjectException.class, () -> TypedMessages.encode(new Small(number)));
            assertTrue(error.getMessage().startsWith(number + " does not fit into u16"));
        }
        assertThrows(ObjectException.class, () -> TypedMessages.encode(new Chain(null)));
    }

    @Test
    void objectsWithinObjectsHaveALimit() {
        byte[] chain = new byte[63];
        Arrays.fill(chain, (byte) 1);
        chain[0] = 8;
        chain[62] = 0;
        assertTrue(TypedMessages.decode(chain, Chain.class).next().isPresent());
        byte[] deep = new byte[100_000];
        Arrays.fill(deep, (byte) 1);
        deep[0] = 8;
        assertRefused("Chain v1: objects within objects are too deep", deep, Chain.class);
    }

    @Typed(10)
    record Narrow(@As(Form.U32) int number) {}

    @Typed(11)
    record Formless(Thread thread) {}

    @Typed(1L << 32)
    record Large() {}

    @Typed(12)
    record Strict(boolean fine) {
        Strict {
            if (!fine) {
                throw new IllegalArgumentException("it is not fine");
            }
        }
    }

    @Test
    void typesWithoutAFormAreRefused() {
        assertUnfit("Level has no number; mark it with @Typed", new Level(1, 1));
        assertUnfit("Integer cannot hold all numbers of u32", new Narrow(1));
        assertUnfit("java.lang.Thread has no form", new Formless(null));
        assertUnfit("Large: a type has a number of 32 bits", new Large());
        assertRefused("Strict v1: its constructor throws", new byte[] {12, 1, 0}, Strict.class);
    }

    private static void assertUnfit(String said, Record object) {
        IllegalArgumentException error =
                assertThrows(IllegalArgumentException.class, () -> TypedMessages.encode(object));
        assertTrue(error.getMessage().startsWith(said), error.getMessage());
    }
}
