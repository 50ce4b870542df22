package io.quicksilver.qsm.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Says which form a whole number has in a message, such as {@code @As(Form.U32) long size}. */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE_USE)
public @interface As {
    /**
     * The form.
     *
     * @return the form
     */
    Form value();
}
