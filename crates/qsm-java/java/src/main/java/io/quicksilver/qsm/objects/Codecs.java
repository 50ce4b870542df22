package io.quicksilver.qsm.objects;

import java.lang.reflect.AnnotatedParameterizedType;
import java.lang.reflect.AnnotatedType;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** Forms of all Java types that have one. */
final class Codecs {
    private static final Map<Class<?>, Class<?>> BOXES = Map.of(
            boolean.class, Boolean.class,
            byte.class, Byte.class,
            short.class, Short.class,
            int.class, Integer.class,
            long.class, Long.class,
            float.class, Float.class,
            double.class, Double.class);

    private static final ClassValue<RecordCodec> RECORDS = new ClassValue<>() {
        @Override
        protected RecordCodec computeValue(Class<?> type) {
            return new RecordCodec(type);
        }
    };

    private static final Codec FLAG = codec(
            (value, output) -> output.put((Boolean) value ? 1 : 0),
            input -> {
                byte flag = input.take();
                if (flag != 0 && flag != 1) {
                    throw new ObjectException((flag & 0xff) + " is neither yes (1) nor no (0)");
                }
                return flag == 1;
            });

    private static final Codec BYTES = codec(
            (value, output) -> {
                byte[] bytes = (byte[]) value;
                output.varint(bytes.length);
                output.put(bytes);
            },
            input -> input.take(input.count()));

    private static final Codec TEXT = codec(
            (value, output) -> BYTES.write(utf8((String) value), output),
            input -> text(input.take(input.count())));

    private static final Map<Class<?>, Codec> SIMPLE = Map.of(
            Boolean.class, FLAG,
            byte[].class, BYTES,
            String.class, TEXT,
            Float.class, codec(
                    (value, output) -> output.fixed(Float.floatToRawIntBits((Float) value), 4),
                    Input::takeFloat),
            Double.class, codec(
                    (value, output) -> output.fixed(Double.doubleToRawLongBits((Double) value), 8),
                    Input::takeDouble));

    private Codecs() {}

    /** Of a record. */
    static Codec of(Class<?> type) {
        return RECORDS.get(type);
    }

    /** Of a type as it is declared; an annotation may say the form of a number. */
    static Codec of(AnnotatedType declared) {
        if (declared instanceof AnnotatedParameterizedType generic) {
            return ofGeneric(generic);
        }
        Type type = declared.getType();
        if (!(type instanceof Class<?> given)) {
            throw formless(type);
        }
        Class<?> boxed = BOXES.getOrDefault(given, given);
        Codec number = NumberCodec.of(boxed, declared.getAnnotation(As.class));
        if (number != null) {
            return number;
        }
        if (SIMPLE.containsKey(boxed)) {
            return SIMPLE.get(boxed);
        }
        if (given.isRecord()) {
            return of(given);
        }
        if (given.isEnum()) {
            return variants(given.getEnumConstants());
        }
        throw formless(type);
    }

    private static Codec ofGeneric(AnnotatedParameterizedType declared) {
        Type raw = ((ParameterizedType) declared.getType()).getRawType();
        List<Codec> parts = new ArrayList<>();
        for (AnnotatedType part : declared.getAnnotatedActualTypeArguments()) {
            parts.add(of(part));
        }
        if (raw == Optional.class) {
            return maybe(parts.get(0));
        }
        if (raw == List.class) {
            return list(parts.get(0));
        }
        if (raw == Map.class) {
            return map(parts.get(0), parts.get(1));
        }
        throw formless(declared.getType());
    }

    private static IllegalArgumentException formless(Type type) {
        return new IllegalArgumentException(
                type.getTypeName() + " has no form in a message; TypedMessages says what has");
    }

    private static Codec maybe(Codec content) {
        return codec(
                (value, output) -> {
                    Optional<?> optional = (Optional<?>) value;
                    FLAG.write(optional.isPresent(), output);
                    optional.ifPresent(present -> content.write(present, output));
                },
                input -> (Boolean) FLAG.read(input)
                        ? Optional.of(content.read(input))
                        : Optional.empty());
    }

    private static Codec list(Codec item) {
        return codec(
                (value, output) -> {
                    List<?> items = (List<?>) value;
                    output.varint(items.size());
                    items.forEach(one -> item.write(one, output));
                },
                input -> {
                    int count = input.count();
                    List<Object> items = new ArrayList<>();
                    for (int index = 0; index < count; index++) {
                        items.add(item.read(input));
                    }
                    return items;
                });
    }

    private static Codec map(Codec keys, Codec values) {
        return codec(
                (value, output) -> {
                    Map<?, ?> pairs = (Map<?, ?>) value;
                    output.varint(pairs.size());
                    pairs.forEach((one, other) -> {
                        keys.write(one, output);
                        values.write(other, output);
                    });
                },
                input -> {
                    int count = input.count();
                    Map<Object, Object> pairs = new LinkedHashMap<>();
                    for (int index = 0; index < count; index++) {
                        pairs.put(keys.read(input), values.read(input));
                    }
                    return pairs;
                });
    }

    private static Codec variants(Object[] variants) {
        return codec(
                (value, output) -> output.varint(Arrays.asList(variants).indexOf(value)),
                input -> {
                    long found = input.varint(32);
                    if (found >= variants.length) {
                        throw new ObjectException("there is no variant " + found);
                    }
                    return variants[(int) found];
                });
    }

    private static byte[] utf8(String text) {
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            return Arrays.copyOf(encoded.array(), encoded.limit());
        } catch (CharacterCodingException half) {
            throw new ObjectException("a text has half a character");
        }
    }

    private static String text(byte[] bytes) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException wrong) {
            throw new ObjectException("the text is not UTF-8");
        }
    }

    private static Codec codec(BiConsumer<Object, Output> write, Function<Input, Object> read) {
        return new Codec() {
            @Override
            public void write(Object value, Output output) {
                Codec.checkPresent(value);
                write.accept(value, output);
            }

            @Override
            public Object read(Input input) {
                return read.apply(input);
            }
        };
    }
}
