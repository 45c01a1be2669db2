import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.JsonNode;
import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.transforms.outbox.EventRouter;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.converters.ByteArrayConverter;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.storage.StringConverter;

/**
 * Reads rows with Debezium's PostgreSQL connector and says what its Outbox Event Router and Connect's converters make
 * of them. Each row is read once; each set of options has a router of its own.
 *
 * Takes a file: {"connector": {...}, "rows": 12, "options": {name: {"table": ..., "router": {...}}}}. Prints one JSON
 * object, by name of the options: a record, or an error, for each row of the table.
 */
public class Recorder {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Converter> CONVERTERS = new LinkedHashMap<>();
    private static final Map<String, HeaderConverter> HEADER_CONVERTERS = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        JsonNode asked = JSON.readTree(Path.of(arguments[0]).toFile());
        converters();
        Map<String, Object> found = new LinkedHashMap<>();
        List<SourceRecord> rows = rows(asked.get("connector"), asked.get("rows").asInt());
        asked.get("options").fields().forEachRemaining(each -> found.put(each.getKey(), routed(rows, each.getValue())));
        Files.writeString(Path.of(arguments[1]), JSON.writeValueAsString(found));
        System.exit(0);
    }

    private static List<SourceRecord> rows(JsonNode connector, int wanted) throws Exception {
        Properties properties = new Properties();
        connector.fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
        List<SourceRecord> rows = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch missing = new CountDownLatch(wanted);
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine = DebeziumEngine.create(Connect.class)
            .using(properties)
            .using((success, message, error) -> {
                if (!success) {
                    System.err.println(message);
                    System.exit(1);
                }
            })
            .notifying(event -> { rows.add(event.value()); missing.countDown(); })
            .build();
        ExecutorService thread = Executors.newSingleThreadExecutor();
        thread.execute(engine);
        if (!missing.await(60, TimeUnit.SECONDS)) {
            System.err.println(rows.size() + " rows came of " + wanted);
            System.exit(1);
        }
        engine.close();
        thread.shutdown();
        return rows;
    }

    private static void converters() {
        for (boolean key : new boolean[] {true, false}) {
            String of = key ? "key." : "value.";
            CONVERTERS.put(of + "string", new StringConverter());
            CONVERTERS.put(of + "json", new JsonConverter());
            CONVERTERS.put(of + "json_with_schemas", new JsonConverter());
            CONVERTERS.put(of + "bytes", new ByteArrayConverter());
            CONVERTERS.forEach((name, each) -> {
                if (name.startsWith(of)) each.configure(Map.of("schemas.enable", name.endsWith("schemas")), key);
            });
        }
        HEADER_CONVERTERS.put("simple", new SimpleHeaderConverter());
        HEADER_CONVERTERS.put("string", new StringConverter());
        HEADER_CONVERTERS.put("json", new JsonConverter());
        HEADER_CONVERTERS.put("json_with_schemas", new JsonConverter());
        HEADER_CONVERTERS.forEach(
            (name, each) -> each.configure(Map.of("converter.type", "header", "schemas.enable", name.endsWith("schemas"))));
    }

    private static List<Object> routed(List<SourceRecord> rows, JsonNode options) {
        Map<String, String> router = new HashMap<>();
        options.get("router").fields().forEachRemaining(each -> router.put(each.getKey(), each.getValue().asText()));
        List<Object> found = new ArrayList<>();
        try (EventRouter<SourceRecord> transform = new EventRouter<>()) {
            try {
                transform.configure(router);
            }
            catch (RuntimeException refused) {
                return List.of(failure(refused));
            }
            for (SourceRecord row : rows) {
                Struct source = ((Struct) row.value()).getStruct("source");
                if (source.getString("table").equals(options.get("table").asText())) {
                    SourceRecord copy = row.newRecord(row.topic(), row.kafkaPartition(), row.keySchema(), row.key(),
                        row.valueSchema(), row.value(), row.timestamp(), row.headers().duplicate());
                    try {
                        SourceRecord routed = transform.apply(copy);
                        found.add(described(routed, ((Struct) row.value()).getInt64("ts_ms")));
                    }
                    catch (RuntimeException failed) {
                        found.add(failure(failed));
                    }
                }
            }
        }
        return found;
    }

    private static Object described(SourceRecord record, long processed) {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("topic", record.topic());
        found.put("partition", record.kafkaPartition());
        found.put("timestamp", record.timestamp() != null && record.timestamp() == processed ? "processed" : record.timestamp());
        found.put("key", converted("key.", record.topic(), record.keySchema(), record.key()));
        found.put("value", converted("value.", record.topic(), record.valueSchema(), record.value()));
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            Map<String, Object> forms = new LinkedHashMap<>();
            HEADER_CONVERTERS.forEach((name, each) -> forms.put(name,
                attempt(() -> each.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value()))));
            headers.add(List.of(header.key(), forms));
        }
        found.put("headers", headers);
        return found;
    }

    private static Map<String, Object> converted(String of, String topic, Schema schema, Object value) {
        Map<String, Object> forms = new LinkedHashMap<>();
        CONVERTERS.forEach((name, each) -> {
            if (name.startsWith(of)) {
                forms.put(name.substring(of.length()), attempt(() -> each.fromConnectData(topic, schema, value)));
            }
        });
        return forms;
    }

    private interface Conversion { byte[] bytes(); }

    private static Object attempt(Conversion conversion) {
        try {
            return text(conversion.bytes());
        }
        catch (RuntimeException failed) {
            return failure(failed);
        }
    }

    private static Map<String, String> failure(RuntimeException failed) {
        return Map.of("error", failed.getClass().getSimpleName() + ": " + failed.getMessage());
    }

    private static Object text(byte[] bytes) {
        if (bytes == null) return null;
        try {
            return StandardCharsets.UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT).decode(ByteBuffer.wrap(bytes)).toString();
        }
        catch (CharacterCodingException binary) {
            return Map.of("base64", Base64.getEncoder().encodeToString(bytes));
        }
    }
}
