package io.quicksilver.qsm.objects;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * Writes and reads records as messages:
 *
 * <pre>{@code
 * @Typed(value = 17, version = 2)
 * record Quote(String symbol, double bid, @As(Form.U32) long size) {}
 *
 * publisher.send(TypedMessages.encode(new Quote("EUR", 1.0842, 300)));
 * Quote quote = TypedMessages.decode(message.data(), Quote.class);
 * }</pre>
 *
 * <p>The bytes are those of types with the same fields in Rust and Python, and of a schema's: {@code
 * boolean} is {@code bool}, {@code byte} to {@code long} are {@code i8} to {@code i64} unless {@link As}
 * says otherwise, {@code float} and {@code double} are {@code f32} and {@code f64}, {@code String} is
 * {@code string}, {@code byte[]} is {@code bytes}, {@code Optional<T>} is {@code T?}, {@code List<T>} is
 * {@code [T]}, {@code Map<K, V>} is <code>{K: V}</code>; {@code BigInteger} needs {@link As}. Records and
 * enums are what they are called; an enum's variants have no content, and are numbered in their order.
 */
public final class TypedMessages {
    private TypedMessages() {}

    /**
     * The message for a record of a {@link Typed} type.
     *
     * @param object the record
     * @return the message
     * @throws ObjectException a value does not fit its form
     * @throws IllegalArgumentException the record's type has no number, or a component has no form
     */
    public static byte[] encode(Record object) {
        Header header = Header.of(object.getClass());
        Output output = new Output();
        output.varint(header.number());
        output.varint(header.version());
        Codecs.of(object.getClass()).write(object, output);
        return output.toBytes();
    }

    /**
     * The object in a message, of this type.
     *
     * @param message a message, from the buffer's position to its limit; neither is moved
     * @param type a {@link Typed} record
     * @param <T> the type
     * @return the object
     * @throws ObjectException it is of another type or version, or not what its type says
     */
    public static <T extends Record> T decode(ByteBuffer message, Class<T> type) {
        return type.cast(decode(message, List.of(type)));
    }

    /**
     * The object in a message, of this type, as {@link #decode(ByteBuffer, Class)}.
     *
     * @param message a message
     * @param type a {@link Typed} record
     * @param <T> the type
     * @return the object
     */
    public static <T extends Record> T decode(byte[] message, Class<T> type) {
        return decode(ByteBuffer.wrap(message), type);
    }

    /**
     * The object in a message, of one of these types.
     *
     * @param message a message, from the buffer's position to its limit; neither is moved
     * @param types {@link Typed} records
     * @return the object
     * @throws ObjectException it is of another type or version, or not what its type says
     */
    public static Record decode(ByteBuffer message, List<? extends Class<? extends Record>> types) {
        Input input = new Input(message);
        Header found = Header.read(input);
        for (Class<? extends Record> type : types) {
            if (Header.of(type).equals(found)) {
                return read(input, type, found);
            }
        }
        List<String> known = new ArrayList<>();
        for (Class<? extends Record> type : types) {
            known.add(type.getSimpleName() + " (" + Header.of(type) + ")");
        }
        String names = known.isEmpty() ? "none" : String.join(", ", known);
        throw new ObjectException("type " + found + " is not known, but " + names);
    }

    private static Record read(Input input, Class<? extends Record> type, Header header) {
        try {
            Record object = type.cast(Codecs.of(type).read(input));
            input.end();
            return object;
        } catch (ObjectException error) {
            throw error.within(type.getSimpleName() + " v" + header.version());
        }
    }
}
