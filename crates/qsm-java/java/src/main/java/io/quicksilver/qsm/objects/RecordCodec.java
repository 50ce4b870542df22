package io.quicksilver.qsm.objects;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.util.Arrays;

/** Records: their components, one behind the other. */
final class RecordCodec implements Codec {
    private final Class<?> type;
    private final Constructor<?> constructor;
    private final Method[] accessors;
    /** Found when they are first needed, because a type may hold itself. */
    private volatile Codec[] codecs;

    RecordCodec(Class<?> type) {
        RecordComponent[] components = type.getRecordComponents();
        if (components == null) {
            throw new IllegalArgumentException(type.getSimpleName() + " is no record");
        }
        this.type = type;
        accessors = Arrays.stream(components).map(RecordComponent::getAccessor).toArray(Method[]::new);
        Class<?>[] types =
                Arrays.stream(components).map(RecordComponent::getType).toArray(Class<?>[]::new);
        try {
            constructor = type.getDeclaredConstructor(types);
        } catch (NoSuchMethodException impossible) {
            throw new AssertionError("a record has a constructor of its components", impossible);
        }
        constructor.setAccessible(true);
        for (Method accessor : accessors) {
            accessor.setAccessible(true);
        }
    }

    private Codec[] codecs() {
        Codec[] found = codecs;
        if (found == null) {
            found = Arrays.stream(type.getRecordComponents())
                    .map(component -> Codecs.of(component.getAnnotatedType()))
                    .toArray(Codec[]::new);
            codecs = found;
        }
        return found;
    }

    @Override
    public void write(Object value, Output output) {
        Codec.checkPresent(value);
        Codec[] codecs = codecs();
        for (int index = 0; index < codecs.length; index++) {
            codecs[index].write(component(value, accessors[index]), output);
        }
    }

    private static Object component(Object value, Method accessor) {
        try {
            return accessor.invoke(value);
        } catch (InvocationTargetException error) {
            throw new ObjectException(accessor.getName() + " throws " + error.getCause());
        } catch (IllegalAccessException impossible) {
            throw new AssertionError("it was made accessible", impossible);
        }
    }

    @Override
    public Object read(Input input) {
        input.enter();
        Codec[] codecs = codecs();
        Object[] values = new Object[codecs.length];
        for (int index = 0; index < codecs.length; index++) {
            values[index] = codecs[index].read(input);
        }
        input.leave();
        try {
            return constructor.newInstance(values);
        } catch (InvocationTargetException error) {
            throw new ObjectException("its constructor throws " + error.getCause());
        } catch (ReflectiveOperationException impossible) {
            throw new AssertionError("records can be made", impossible);
        }
    }
}
