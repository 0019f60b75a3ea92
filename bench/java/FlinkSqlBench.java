import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.CompiledPlan;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;

/**
 * One job of Flink SQL over topics that are loaded already: ends when all is committed, prints one line of JSON.
 *
 * <p>Arguments: a file of statements, each ended by a semicolon at the end of a line, and settings as key=value. All INSERT
 * statements are one job. Its sources are bounded by the topics' ends, so it ends with a last checkpoint, which commits.
 */
public final class FlinkSqlBench {
    private FlinkSqlBench() {}

    public static void main(String[] arguments) throws Exception {
        // Whoever started it is gone, and the broker with it: nothing would ever end.
        ProcessHandle.current().parent().ifPresent(one -> one.onExit().thenRun(() -> Runtime.getRuntime().halt(1)));
        final Configuration settings = new Configuration();
        for (int place = 1; place < arguments.length; place++) {
            final String[] pair = arguments[place].split("=", 2);
            settings.setString(pair[0], pair[1]);
        }
        final TableEnvironment tables = TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
        final StatementSet inserts = tables.createStatementSet();
        for (final String statement : Files.readString(Path.of(arguments[0])).split(";\\s*\\n")) {
            if (statement.strip().startsWith("INSERT")) {
                inserts.addInsertSql(statement);
            } else if (!statement.isBlank()) {
                tables.executeSql(statement);
            }
        }
        final CompiledPlan plan = inserts.compilePlan(); // planning comes before the time, as building a topology does
        final long startedMs = System.currentTimeMillis();
        plan.execute().await();
        final double seconds = (System.currentTimeMillis() - startedMs) / 1e3;
        final var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        System.out.printf(
            java.util.Locale.ROOT, "{\"started_seconds\": %.3f, \"cpu_seconds\": %.3f, \"peak_bytes\": %d}%n",
            seconds, system.getProcessCpuTime() / 1e9, peakMemory());
        System.exit(0); // nothing of the small cluster is needed any more
    }

    private static long peakMemory() throws IOException {
        return Files.readAllLines(Path.of("/proc/self/status")).stream()
            .filter(line -> line.startsWith("VmHWM:"))
            .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) * 1024)
            .findFirst().orElseThrow();
    }
}
