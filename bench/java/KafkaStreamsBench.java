import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;

/**
 * One work done by Kafka Streams over topics that are loaded already: ends when all is committed, prints one line of JSON.
 *
 * <p>Arguments: work, bootstrap servers, application id, state folder, guarantee, cache bytes, threads, commit interval in
 * ms, output topic. The system property bench.began is when the process was started, in ms since 1970.
 */
public final class KafkaStreamsBench {
    record View(long ms, String page, String session, String referrer) {}

    record Profile(String region, String plan, long since) {}

    record Enriched(long ms, String page, String region, String plan) {}

    record Order(long amount, long ms) {}

    record Payment(String method, long ms) {}

    record PaidOrder(long amount, String method) {}

    record CustomerOrder(String customer, long amount) {}

    record Customer(String name, String tier) {}

    record NamedOrder(String customer, long amount, String name, String tier) {}

    /** What a work reads, and how its topology is built. */
    record Work(List<String> inputs, Wiring wiring) {}

    interface Wiring {
        void build(StreamsBuilder builder, String output);
    }

    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Serde<String> TEXT = Serdes.String();
    private static final Duration WINDOW = Duration.ofMinutes(5);
    private static final long POLL_MS = 100;
    /** Rows without a partner are looked for once in so long, of wall time (KStreamKStreamJoin's emit interval). */
    private static final long EMIT_INTERVAL_MS = 1_000;

    private static final Map<String, Work> WORKS = Map.of(
        "enrichment", new Work(List.of("views", "profiles"), KafkaStreamsBench::enrichment),
        "correlation", new Work(List.of("orders", "payments"), KafkaStreamsBench::correlation),
        "foreign_key", new Work(List.of("fk_orders", "customers"), KafkaStreamsBench::foreignKey));

    private KafkaStreamsBench() {}

    static void enrichment(StreamsBuilder builder, String output) {
        final KTable<String, Profile> profiles = builder.table("profiles", Consumed.with(TEXT, json(Profile.class)));
        builder.stream("views", Consumed.with(TEXT, json(View.class)))
            .leftJoin(
                profiles,
                (view, user) -> new Enriched(
                    view.ms(), view.page(), user == null ? null : user.region(), user == null ? null : user.plan()),
                Joined.with(TEXT, json(View.class), json(Profile.class)))
            .to(output, Produced.with(TEXT, json(Enriched.class)));
    }

    static void correlation(StreamsBuilder builder, String output) {
        final var payments = builder.stream("payments", Consumed.with(TEXT, json(Payment.class)));
        builder.stream("orders", Consumed.with(TEXT, json(Order.class)))
            .processValues(Nudge::new) // not process, which may change the key: the orders would be written to Kafka once more
            .leftJoin(
                payments,
                (order, payment) -> new PaidOrder(order.amount(), payment == null ? null : payment.method()),
                JoinWindows.ofTimeDifferenceAndGrace(WINDOW, Duration.ZERO),
                StreamJoined.with(TEXT, json(Order.class), json(Payment.class)))
            .to(output, Produced.with(TEXT, json(PaidOrder.class)));
    }

    static void foreignKey(StreamsBuilder builder, String output) {
        final KTable<String, Customer> customers = builder.table("customers", Consumed.with(TEXT, json(Customer.class)));
        builder.table("fk_orders", Consumed.with(TEXT, json(CustomerOrder.class)))
            .leftJoin(
                customers,
                CustomerOrder::customer,
                (order, customer) -> new NamedOrder(
                    order.customer(), order.amount(), customer == null ? null : customer.name(),
                    customer == null ? null : customer.tier()))
            .toStream()
            .to(output, Produced.with(TEXT, json(NamedOrder.class)));
    }

    /**
     * Moves the stream time of its task, once, when all that was in the topics is committed.
     *
     * <p>Kafka Streams looks for rows without a partner at most once a second. The records that close the windows come less
     * than a second after the last look, so the rows of the last second would stay inside until a next record comes, which
     * in a topic that lives is a moment later, and here never. No time is measured any more when this happens.
     *
     * <p>What moves it is the last order again, so much later that no payment is in its window: nothing comes of it.
     */
    static final class Nudge extends ContextualFixedKeyProcessor<String, Order, Order> {
        private static volatile long dueMs = Long.MAX_VALUE;
        private static volatile CountDownLatch tasks = new CountDownLatch(0);
        private FixedKeyRecord<String, Order> last;
        private boolean done;

        static void all(int count) throws InterruptedException {
            tasks = new CountDownLatch(count);
            dueMs = System.currentTimeMillis() + EMIT_INTERVAL_MS + POLL_MS;
            if (!tasks.await(1, TimeUnit.MINUTES)) {
                throw new IllegalStateException(tasks.getCount() + " tasks could not be nudged");
            }
        }

        @Override
        public void init(FixedKeyProcessorContext<String, Order> context) {
            super.init(context);
            context.schedule(Duration.ofMillis(POLL_MS), PunctuationType.WALL_CLOCK_TIME, this::punctuate);
        }

        @Override
        public void process(FixedKeyRecord<String, Order> order) {
            last = order;
            context().forward(order);
        }

        private void punctuate(long now) {
            if (!done && now > dueMs) {
                context().forward(last.withTimestamp(context().currentStreamTimeMs() + 2 * WINDOW.toMillis()));
                done = true;
                tasks.countDown();
            }
        }
    }

    static <T> Serde<T> json(Class<T> type) {
        final ObjectReader reader = MAPPER.readerFor(type);
        final ObjectWriter writer = MAPPER.writerFor(type);
        return Serdes.serdeFrom(
            (topic, value) -> value == null ? null : attempt(() -> writer.writeValueAsBytes(value)),
            (topic, bytes) -> bytes == null ? null : attempt(() -> reader.readValue(bytes)));
    }

    interface Attempt<T> {
        T get() throws IOException;
    }

    private static <T> T attempt(Attempt<T> what) {
        try {
            return what.get();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /**
     * What a careful user sets, all else as Kafka Streams has it.
     *
     * <p>max.task.idle.ms stays 0: with it a task whose one partition is empty waits as long as the broker has more of it,
     * so records already in the topics are processed in the order of their timestamps; more is for topics that lag behind.
     */
    static Properties settings(
            String servers, String application, String state, String guarantee, long cache, int threads, long commitMs) {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cache);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, threads);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, commitMs);
        // Tables restore from their source topics: no changelog is written for them.
        settings.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 128 * 1024);
        return settings;
    }

    public static void main(String[] arguments) throws Exception {
        // Whoever started it is gone, and the broker with it: closing would wait for that.
        ProcessHandle.current().parent().ifPresent(one -> one.onExit().thenRun(() -> Runtime.getRuntime().halt(1)));
        final Work work = WORKS.get(arguments[0]);
        final String servers = arguments[1];
        final String application = arguments[2];
        final Properties settings = settings(
            servers, application, arguments[3], arguments[4], Long.parseLong(arguments[5]),
            Integer.parseInt(arguments[6]), Long.parseLong(arguments[7]));
        final StreamsBuilder builder = new StreamsBuilder();
        work.wiring().build(builder, arguments[8]);

        final Map<String, Object> result;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers));
                KafkaStreams streams = new KafkaStreams(builder.build(settings), settings)) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            final Map<TopicPartition, Long> inputs = ends(admin, work.inputs());
            final Watch watch = new Watch(streams);
            streams.start();
            await(watch, admin, application, inputs);
            // An internal topic's end is final when all that is read to fill it is committed, so one stage after the other.
            for (String stage : List.of("-SUBSCRIPTION-REGISTRATION-", "-SUBSCRIPTION-RESPONSE-")) {
                final List<String> internal = admin.listTopics().names().get().stream()
                    .filter(name -> name.startsWith(application + "-") && name.contains(stage) && name.endsWith("-topic"))
                    .toList();
                await(watch, admin, application, ends(admin, internal));
            }
            result = watch.result();
            result.put("records", inputs.values().stream().mapToLong(Long::longValue).sum());
            if (arguments[0].equals("correlation")) {
                Nudge.all((int) inputs.keySet().stream().filter(one -> one.topic().equals("orders")).count());
            }
        }
        System.out.println(MAPPER.writeValueAsString(result)); // when it is closed, and the output is whole
    }

    private static void await(Watch watch, Admin admin, String group, Map<TopicPartition, Long> ends) throws Exception {
        while (!committed(admin, group, ends)) {
            Thread.sleep(POLL_MS);
            watch.look();
        }
    }

    private static boolean committed(Admin admin, String group, Map<TopicPartition, Long> ends) throws Exception {
        try {
            final Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            return ends.entrySet().stream().allMatch(end -> {
                final OffsetAndMetadata offset = offsets.get(end.getKey());
                return end.getValue() == 0 || offset != null && offset.offset() >= end.getValue();
            });
        } catch (ExecutionException error) {
            if (error.getCause() instanceof org.apache.kafka.common.errors.GroupIdNotFoundException) {
                return false; // no thread has joined yet
            }
            throw error;
        }
    }

    private static Map<TopicPartition, Long> ends(Admin admin, Collection<String> topics) throws Exception {
        final Map<TopicPartition, OffsetSpec> wanted = admin.describeTopics(topics).allTopicNames().get().values().stream()
            .flatMap(topic -> topic.partitions().stream().map(one -> new TopicPartition(topic.name(), one.partition())))
            .collect(Collectors.toMap(Function.identity(), one -> OffsetSpec.latest()));
        return admin.listOffsets(wanted).all().get().entrySet().stream()
            .collect(Collectors.toMap(Map.Entry::getKey, end -> end.getValue().offset()));
    }

    /** What the run takes: time, processor, memory. */
    private static final class Watch {
        private final long startedMs = System.currentTimeMillis();
        private final long beganMs = Long.getLong(
            "bench.began", ManagementFactory.getRuntimeMXBean().getStartTime());
        private final KafkaStreams streams;
        private long peakHeap;
        private double processed = -1;
        private long processedMs;

        Watch(KafkaStreams streams) {
            this.streams = streams;
        }

        void look() {
            if (streams.state().hasStartedOrFinishedShuttingDown()) {
                throw new IllegalStateException("Kafka Streams has ended: " + streams.state());
            }
            peakHeap = Math.max(peakHeap, ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed());
            final double now = streams.metrics().entrySet().stream()
                .filter(one -> one.getKey().name().equals("process-total"))
                .filter(one -> one.getKey().group().equals("stream-thread-metrics"))
                .map(Map.Entry::getValue).map(Metric::metricValue).mapToDouble(value -> (double) value).sum();
            if (now != processed) {
                processed = now;
                processedMs = System.currentTimeMillis();
            }
        }

        Map<String, Object> result() throws IOException {
            final long now = System.currentTimeMillis();
            final var system =
                (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            final Map<String, Object> result = new LinkedHashMap<>();
            result.put("seconds", (now - beganMs) / 1e3);
            result.put("started_seconds", (now - startedMs) / 1e3);
            result.put("processed_seconds", (processedMs - startedMs) / 1e3);
            result.put("cpu_seconds", system.getProcessCpuTime() / 1e9);
            result.put("peak_bytes", peakMemory());
            result.put("peak_heap_bytes", peakHeap);
            result.put("processed", (long) processed);
            return result;
        }

        private static long peakMemory() throws IOException {
            return Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("VmHWM:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) * 1024)
                .findFirst().orElseThrow();
        }
    }
}
