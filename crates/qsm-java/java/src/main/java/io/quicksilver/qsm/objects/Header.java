package io.quicksilver.qsm.objects;

/** The numbers in front of an object. */
record Header(long number, long version) {
    static Header of(Class<?> type) {
        Typed typed = type.getAnnotation(Typed.class);
        if (typed == null) {
            throw new IllegalArgumentException(
                    type.getSimpleName() + " has no number; mark it with @Typed");
        }
        if (typed.value() >>> 32 != 0 || typed.version() >>> 16 != 0) {
            throw new IllegalArgumentException(
                    type.getSimpleName() + ": a type has a number of 32 bits and a version of 16");
        }
        return new Header(typed.value(), typed.version());
    }

    static Header read(Input input) {
        try {
            return new Header(input.varint(32), input.varint(16));
        } catch (ObjectException cut) {
            throw new ObjectException("no object: its sender may send plain bytes");
        }
    }

    @Override
    public String toString() {
        return number + " v" + version;
    }
}
