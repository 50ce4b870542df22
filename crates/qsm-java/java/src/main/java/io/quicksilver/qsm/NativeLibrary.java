package io.quicksilver.qsm;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** The native part: out of the jar, or from where {@code qsm.library.path} says. */
final class NativeLibrary {
    /** A property: the library's file, or a folder that has it. */
    static final String PATH = "qsm.library.path";

    private static final String FILE = "libqsm_java.so";

    private NativeLibrary() {}

    static void load() {
        String given = System.getProperty(PATH);
        if (given != null) {
            Path path = Path.of(given).toAbsolutePath();
            System.load((Files.isDirectory(path) ? path.resolve(FILE) : path).toString());
            return;
        }
        String name = "native/" + platform() + "/" + FILE;
        try (InputStream packed = NativeLibrary.class.getResourceAsStream(name)) {
            if (packed == null) {
                throw new UnsatisfiedLinkError(
                        "this jar has no native part for " + platform() + "; build one with `make java`"
                                + " there, or say where it is with -D" + PATH + "=FILE");
            }
            load(packed);
        } catch (IOException error) {
            throw new UnsatisfiedLinkError(
                    "the native part cannot be unpacked: " + error + "; give another folder with"
                            + " -Djava.io.tmpdir=FOLDER, or unpack it and say where it is with -D"
                            + PATH + "=FILE");
        }
    }

    private static void load(InputStream packed) throws IOException {
        Path file = Files.createTempFile("libqsm_java-", ".so");
        try {
            Files.copy(packed, file, StandardCopyOption.REPLACE_EXISTING);
            System.load(file.toString());
        } finally {
            // It stays loaded without its name.
            Files.delete(file);
        }
    }

    /** For example {@code linux-x86_64}, as the build names it. */
    private static String platform() {
        String machine = System.getProperty("os.arch");
        String system = System.getProperty("os.name").toLowerCase(java.util.Locale.ROOT);
        return system + "-" + (machine.equals("amd64") ? "x86_64" : machine);
    }
}
