package io.quicksilver.qsm.objects;

/**
 * A form of whole numbers, by sign and bits. A Java type has a form if it can hold all its numbers; {@code
 * long} also has {@link #U64}, as the same 64 bits ({@link Long#toUnsignedString(long)}).
 */
public enum Form {
    /** Unsigned, 8 bits. */
    U8(false, 8),
    /** Unsigned, 16 bits. */
    U16(false, 16),
    /** Unsigned, 32 bits. */
    U32(false, 32),
    /** Unsigned, 64 bits. */
    U64(false, 64),
    /** Unsigned, 128 bits. */
    U128(false, 128),
    /** Signed, 8 bits. */
    I8(true, 8),
    /** Signed, 16 bits. */
    I16(true, 16),
    /** Signed, 32 bits. */
    I32(true, 32),
    /** Signed, 64 bits. */
    I64(true, 64),
    /** Signed, 128 bits. */
    I128(true, 128);

    final boolean signed;
    final int bits;

    Form(boolean signed, int bits) {
        this.signed = signed;
        this.bits = bits;
    }

    /** As schemas have it, such as {@code u32}. */
    @Override
    public String toString() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }
}
