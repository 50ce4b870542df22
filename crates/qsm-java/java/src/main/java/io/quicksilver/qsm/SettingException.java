package io.quicksilver.qsm;

/** There is no such setting, or it does not take such a value. */
public final class SettingException extends QsmException {
    private static final long serialVersionUID = 1;

    SettingException(int code, String text) {
        super(code, text);
    }
}
