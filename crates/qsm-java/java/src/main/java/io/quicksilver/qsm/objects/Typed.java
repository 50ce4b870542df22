package io.quicksilver.qsm.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Makes a record a type of messages, with a number and a version that readers know. */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface Typed {
    /**
     * Number of the type, of 32 bits: it stands for this type for ever.
     *
     * @return the number
     */
    long value();

    /**
     * Version of the type, of 16 bits: raised by whoever changes the fields.
     *
     * @return the version
     */
    int version() default 1;
}
