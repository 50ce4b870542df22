package io.quicksilver.qsm.objects;

import java.math.BigInteger;
import java.util.Map;

/** Whole numbers of a form, in a Java type. */
final class NumberCodec implements Codec {
    /** Bits of the Java types, and the forms that they have if nothing is said. */
    private static final Map<Class<?>, Form> FORMS = Map.of(
            Byte.class, Form.I8,
            Short.class, Form.I16,
            Integer.class, Form.I32,
            Long.class, Form.I64);

    private final Form form;
    private final Class<?> type;

    private NumberCodec(Form form, Class<?> type) {
        this.form = form;
        this.type = type;
    }

    /** For a boxed type; null if it is none of whole numbers. */
    static NumberCodec of(Class<?> type, As as) {
        Form own = FORMS.get(type);
        if (own == null && type != BigInteger.class) {
            return null;
        }
        if (own == null && as == null) {
            throw new IllegalArgumentException("a BigInteger needs @As(Form.U128) or another form");
        }
        Form form = as == null ? own : as.value();
        boolean bits = form == Form.U64 && type == Long.class;
        if (own != null && !bits && form.bits + (form.signed ? 0 : 1) > own.bits) {
            throw new IllegalArgumentException(
                    type.getSimpleName() + " cannot hold all numbers of " + form
                            + "; give a larger type, or BigInteger");
        }
        return new NumberCodec(form, type);
    }

    @Override
    public void write(Object value, Output output) {
        Codec.checkPresent(value);
        if (type == BigInteger.class) {
            write((BigInteger) value, output);
            return;
        }
        long number = ((Number) value).longValue();
        if (form.bits < 64) {
            long least = form.signed ? -1L << (form.bits - 1) : 0;
            long most = form.signed ? ~least : (1L << form.bits) - 1;
            if (number < least || number > most) {
                throw unfit(number);
            }
        }
        if (form.bits == 8) {
            output.put((int) number);
        } else {
            output.varint(form.signed ? number << 1 ^ number >> 63 : number);
        }
    }

    private void write(BigInteger number, Output output) {
        boolean fits = form.signed
                ? number.bitLength() < form.bits
                : number.signum() >= 0 && number.bitLength() <= form.bits;
        if (!fits) {
            throw unfit(number);
        }
        if (form.bits == 8) {
            output.put(number.intValue());
            return;
        }
        boolean negative = form.signed && number.signum() < 0;
        BigInteger twice = form.signed ? number.shiftLeft(1) : number;
        output.varint(negative ? twice.not() : twice);
    }

    private ObjectException unfit(Object number) {
        return new ObjectException(number + " does not fit into " + form);
    }

    @Override
    public Object read(Input input) {
        if (form.bits == 128) {
            BigInteger number = input.bigVarint(128);
            if (!form.signed) {
                return number;
            }
            BigInteger half = number.shiftRight(1);
            return number.testBit(0) ? half.not() : half;
        }
        long number = small(input);
        if (type == BigInteger.class) {
            return form == Form.U64
                    ? new BigInteger(Long.toUnsignedString(number))
                    : BigInteger.valueOf(number);
        }
        if (type == Long.class) {
            return number;
        }
        if (type == Integer.class) {
            return (int) number;
        }
        return type == Short.class ? (Object) (short) number : (Object) (byte) number;
    }

    private long small(Input input) {
        if (form.bits == 8) {
            byte number = input.take();
            return form.signed ? number : number & 0xff;
        }
        long number = input.varint(form.bits);
        return form.signed ? number >>> 1 ^ -(number & 1) : number;
    }
}
