package io.quicksilver.qsm;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Functions of the native part and of the C library, found once each. */
final class Foreign {
    private static final Linker LINKER = Linker.nativeLinker();
    private static final Map<String, MethodHandle> FOUND = new ConcurrentHashMap<>();

    private Foreign() {}

    /** The function of this name; {@link NativeLibrary} has loaded the library. */
    static MethodHandle find(String name, FunctionDescriptor kinds) {
        return FOUND.computeIfAbsent(name, missing -> {
            SymbolLookup library = SymbolLookup.loaderLookup();
            MemorySegment symbol = library.find(name).or(() -> LINKER.defaultLookup().find(name)).orElseThrow(
                    () -> new UnsatisfiedLinkError("the native part has no " + name + "; take that of this jar"));
            return LINKER.downcallHandle(symbol, kinds);
        });
    }

    /** A text of C. */
    static String text(long address) {
        return MemorySegment.ofAddress(address).reinterpret(Long.MAX_VALUE).getString(0);
    }

    /** The fault of a call, which can be thrown where no checked one may be. */
    static RuntimeException unchecked(Throwable fault) {
        if (fault instanceof RuntimeException || fault instanceof Error) {
            return Foreign.<RuntimeException>thrown(fault);
        }
        return new IllegalStateException(fault);
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> RuntimeException thrown(Throwable fault) throws T {
        throw (T) fault;
    }
}
