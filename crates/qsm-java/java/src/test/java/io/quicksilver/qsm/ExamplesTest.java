package io.quicksilver.qsm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The examples print what they should, run as a user would: {@code java -cp qsm.jar Prices.java}. */
class ExamplesTest {
    private static final Map<String, String> PRINTED = Map.of(
            "Desk.java", "eur 1.0842\neur 1.0851\nRemoved[key=eur]\n0 left\n",
            "Late.java", "4 story 4\n5 story 5\n2 kept, 0 missing\n1 sender\n",
            "Prices.java", "prices/eur 1 1.0842\n",
            "Quotes.java", "EUR 1.0842 300\n",
            "Stories.java", "1 story 1\n2 story 2\n3 story 3\n");

    @Test
    void eachExampleRuns() throws Exception {
        File folder = new File(System.getProperty("qsm.examples"));
        Set<String> names = new TreeSet<>(Set.of(folder.list()));
        assertEquals(new TreeSet<>(PRINTED.keySet()), names);
        Map<String, Process> running = new LinkedHashMap<>();
        for (String name : names) {
            running.put(name, start(folder, name));
        }
        for (String name : names) {
            Process process = running.get(name);
            try {
                assertTrue(process.waitFor(300, TimeUnit.SECONDS), name + " does not end");
                assertEquals(PRINTED.get(name), Files.readString(output(name)));
                assertEquals(0, process.exitValue(), name);
            } finally {
                process.destroyForcibly();
            }
        }
    }

    private static Path output(String name) {
        return Path.of(System.getProperty("qsm.examples.output"), name + ".out");
    }

    private static Process start(File folder, String name) throws Exception {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        List<String> command = new ArrayList<>(List.of(java, "-cp", System.getProperty("java.class.path")));
        if (Runtime.version().feature() >= 22) {
            command.add("--enable-native-access=ALL-UNNAMED");
        }
        String library = System.getProperty(NativeLibrary.PATH);
        if (library != null) {
            command.add("-D" + NativeLibrary.PATH + "=" + library);
        }
        command.addAll(List.of(name, Loopback.cluster()));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.directory(folder).redirectErrorStream(true).redirectOutput(output(name).toFile());
        return builder.start();
    }
}
