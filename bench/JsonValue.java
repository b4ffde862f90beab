package bench;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * What Kafka's own transformations need on a mirror, whose records are bytes: the JSON in them as
 * a map, and back, by Kafka's own converter; and a condition on a field, which Kafka lacks.
 */
public final class JsonValue {
    private JsonValue() {}

    private static JsonConverter converter() {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), false);
        return converter;
    }

    private abstract static class Conversion<R extends ConnectRecord<R>>
            implements Transformation<R> {
        final JsonConverter converter = converter();

        abstract Object convert(R record);

        @Override
        public R apply(R record) {
            if (record.value() == null) {
                return record;
            }
            Schema schema = this instanceof Encode ? Schema.OPTIONAL_BYTES_SCHEMA : null;
            return record.newRecord(
                    record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
                    schema, convert(record), record.timestamp());
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}
    }

    public static class Decode<R extends ConnectRecord<R>> extends Conversion<R> {
        @Override
        Object convert(R record) {
            return converter.toConnectData(record.topic(), (byte[]) record.value()).value();
        }
    }

    public static class Encode<R extends ConnectRecord<R>> extends Conversion<R> {
        @Override
        Object convert(R record) {
            return converter.fromConnectData(record.topic(), null, record.value());
        }
    }

    /** True of a record of `topic` whose JSON has the text `value` in `field`. */
    public static class FieldIs<R extends ConnectRecord<R>> implements Predicate<R> {
        private final JsonConverter converter = converter();
        private Map<String, String> wanted = new HashMap<>();

        @Override
        public boolean test(R record) {
            if (record.value() == null || !record.topic().equals(wanted.get("topic"))) {
                return false;
            }
            Object value = converter.toConnectData(record.topic(), (byte[]) record.value()).value();
            return wanted.get("value").equals(((Map<?, ?>) value).get(wanted.get("field")));
        }

        @Override
        public ConfigDef config() {
            ConfigDef keys = new ConfigDef();
            for (String key : new String[] {"topic", "field", "value"}) {
                keys.define(key, ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, key);
            }
            return keys;
        }

        @Override
        public void configure(Map<String, ?> configs) {
            for (Map.Entry<String, ?> entry : configs.entrySet()) {
                wanted.put(entry.getKey(), String.valueOf(entry.getValue()));
            }
        }

        @Override
        public void close() {}
    }
}
