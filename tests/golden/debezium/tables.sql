-- The table of the router's documentation.
CREATE TABLE outbox (
    id            uuid         NOT NULL PRIMARY KEY,
    aggregatetype varchar(255) NOT NULL,
    aggregateid   varchar(255) NOT NULL,
    type          varchar(255) NOT NULL,
    payload       jsonb
);

-- Text as payload, columns that may be NULL, and others beside them.
CREATE TABLE texts (
    id            bigint PRIMARY KEY,
    aggregatetype text,
    aggregateid   text,
    payload       text,
    version       int,
    shard         int NOT NULL DEFAULT 3,
    note          text
);

CREATE TABLE bytes (
    id            uuid PRIMARY KEY,
    aggregatetype text   NOT NULL,
    aggregateid   bigint NOT NULL,
    payload       bytea
);

-- Each type once.
CREATE TABLE types (
    id            text PRIMARY KEY,
    aggregatetype text NOT NULL,
    aggregateid   text NOT NULL,
    payload       json,
    flag          boolean,
    small         smallint,
    whole         integer NOT NULL,
    large         bigint,
    words         text,
    short         varchar(20) NOT NULL,
    fixed         char(5),
    token         uuid,
    document      json,
    binary_json   jsonb,
    content       bytea,
    at            timestamp,
    at_millis     timestamp(3),
    at_zone       timestamptz,
    at_zone_short timestamptz(3),
    on_day        date,
    at_time       time,
    single        real,
    double        double precision,
    price         numeric(10,2),
    any_price     numeric,
    tags          text[],
    at_zone_0     timestamptz(0),
    at_zone_1     timestamptz(1),
    at_zone_4     timestamptz(4),
    at_seconds    timestamp(0),
    at_time_3     time(3),
    tiny_price    numeric(20,10),
    whole_price   numeric(30)
);

-- Constants and functions as defaults.
CREATE TABLE defaults (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregatetype text NOT NULL DEFAULT 'order',
    aggregateid   text NOT NULL,
    payload       jsonb DEFAULT '{"a": 1}',
    note          text DEFAULT 'it''s',
    short         varchar(5) DEFAULT 'ab',
    whole         int DEFAULT -3,
    large         bigint NOT NULL DEFAULT 12,
    flag          boolean NOT NULL DEFAULT false,
    token         uuid DEFAULT '00000000-0000-0000-0000-000000000001',
    made          timestamptz DEFAULT now(),
    since         timestamp DEFAULT '2026-01-02 03:04:05',
    on_day        date DEFAULT '2026-01-02',
    single        real DEFAULT 1.5,
    number        bigserial,
    stamp         timestamp DEFAULT now(),
    word          text DEFAULT upper('x'),
    today         date DEFAULT current_date,
    truth         boolean DEFAULT random() > 2,
    document      json DEFAULT json_build_object(),
    nothing       text DEFAULT NULL,
    cost          numeric(10,2) DEFAULT 1.5,
    chance        numeric(12,3) DEFAULT random(),
    any_cost      numeric DEFAULT 2.50
);

-- rows

INSERT INTO outbox VALUES
('59a42efd-b015-44a9-9dde-cb36d9002425', 'order', '1', 'OrderCreated', '{"id": 1, "b": "xé", "n": null, "arr": [], "f": 1.50}'),
('59a42efd-b015-44a9-9dde-cb36d9002426', 'Order Line', 'a "b" \ /', 'Changed', '{"deep": {"a": {"b": [1, 2, null]}}, "t": true}'),
('59a42efd-b015-44a9-9dde-cb36d9002427', 'order', 'é€😀', 'Deleted', NULL),
('59a42efd-b015-44a9-9dde-cb36d9002428', 'order.x', '', 'Empty', '{}'),
('59a42efd-b015-44a9-9dde-cb36d9002429', 'order', '5', 'List', '[1, 2, 3]'),
('59a42efd-b015-44a9-9dde-cb36d900242a', 'order', '6', 'Text', '"only text"'),
('59a42efd-b015-44a9-9dde-cb36d900242b', 'order', '7', 'Null', 'null'),
('59a42efd-b015-44a9-9dde-cb36d900242c', 'order', '8', 'Number', '12.50')

INSERT INTO texts VALUES
(1, 'order', '1', '{"b": 1, "a": "x/y \u00e9 \u001f"}', 1, 0, 'one'),
(2, 'order', NULL, '', NULL, 1, NULL),
(3, 'order', '3', '   ', 3, 2, ''),
(4, 'order', '4', NULL, 4, 3, 'null'),
(5, 'invoice', '5', 'no JSON', 5, 4, 'a, b; "c"'),
(6, 'order', '6', ' {"blank": 1}', 6, 5, ' x '),
(7, 'order', '7', '{"broken": ', 7, 6, E'tab\t newline\n bell\x07 us\x1f del\x7f'),
(8, 'order', '8', '{"i": 2147483647, "l": 2147483648, "m": -9223372036854775808, "t": true, "f": false}', 8, 7, 'x'),
(9, 'order', '9', '{"big": 9223372036854775808}', 9, 8, 'x'),
(10, 'order', '10', '{"d": 1.5, "e": 1e10, "s": 0.0001, "n": -0.0, "w": 100.0, "h": 12345678.9, "m": 1234567.5, "t": 0.001, "x": 1E-7, "y": 0.1, "z": 123456789012345680.0, "v": 5e-324, "u": 1.7976931348623157e308, "k": 2e-3, "j": 9007199254740993.0}', 10, 9, 'x'),
(11, 'order', '11', '{"a": [1, "a"]}', 11, 0, 'x'),
(12, 'order', '12', '{"a": [{"x": 1}, {"y": "b"}, null]}', 12, 0, 'x'),
(13, 'order', '13', '{"a": [null, null]}', 13, 0, 'x'),
(14, 'order', '14', '{"a": [1, 2147483648]}', 14, 0, 'x'),
(15, 'order', '15', '{"a": [1.5, 2.5], "b": ["x", null], "c": [true], "e": [[1], [2]]}', 15, 0, 'x'),
(16, 'order', '16', '{"a": {"b": null}, "c": {}, "d": [{}], "e": {"f": []}}', 16, 0, 'x'),
(17, 'order', '17', '{"a": 1, "a": 2, "": 3, "b c": 4, "d.e": 5}', 17, 0, 'x'),
(18, 'order', '18', '{"a": 1} trailing', 18, 0, 'x'),
(19, 'order', '19', '[{"a": 1}]', 19, 0, 'x'),
(20, 'order', '20', '[]', 20, 0, 'x'),
(21, 'order', '21', '{"a": NaN}', 21, 0, 'x'),
(22, 'order', '22', '{"a": "\ud83d\ude00 \\ \" \n"}', 22, 0, 'x'),
(23, 'order', '23', '{"a": 1e400, "b": 1}', 23, 0, 'x'),
(24, 'order', '24', '{"a": [[1, "x"]]}', 24, 0, 'x'),
(25, 'order', '25', '{"a": [{"x": null, "y": [1]}, {"x": 5}]}', 25, 0, 'x'),
(26, 'order', '26', '{"a": [[], [1]]}', 26, 0, 'x'),
(27, NULL, '27', '{}', 27, 0, 'x')

INSERT INTO bytes VALUES
('59a42efd-b015-44a9-9dde-cb36d9002425', 'order', 1, 'text'),
('59a42efd-b015-44a9-9dde-cb36d9002426', 'order', 9223372036854775807, '\x00ff80'),
('59a42efd-b015-44a9-9dde-cb36d9002427', 'order', -1, ''),
('59a42efd-b015-44a9-9dde-cb36d9002428', 'order', 0, NULL)

INSERT INTO types VALUES
('a', 'order', 'k', '{"a":  1}', true, -5, 42, 9007199254740993, 'wörds "q"', 'short', 'ab', 'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11',
 '{"z":  1}', '{"z":  1}', '\x00ff80', '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.6789+02', '2026-01-02 03:04:05.67+00', '2026-01-02', '03:04:05.5', 1.1, 1e100, 12.50, 1.230, '{a,"b c"}', '2026-01-02 03:04:05+00', '2026-01-02 03:04:05.5+00', '2026-01-02 03:04:05.5+00', '2026-01-02 03:04:05', '03:04:05.5', 0.0000000001, 12),
('b', 'order', 'k', NULL, false, NULL, -1, NULL, NULL, '', NULL, NULL,
 NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('c', 'order', 'k', '[]', NULL, 32767, 0, -9223372036854775808, '', 'x', '', '00000000-0000-0000-0000-000000000000',
 'null', '"s"', '', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999', '1969-12-31 23:59:59+00', '2026-06-02 03:04:05+00', '1960-02-29', '00:00:00', 16777216, 0.1, -0.01, 100, '{}', '2026-01-02 03:04:00+00', '2026-01-02 03:04:00+00', '2026-01-02 03:04:00+00', '1969-12-31 23:59:59', '00:00', 0, -129),
('d', 'order', 'k', '{}', true, 0, 0, 0, E'tab\t', 'x', 'abcde', '00000000-0000-0000-0000-000000000000',
 '[]', '[]', 'x', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '2026-01-02 03:04:00+00', '2026-01-02 03:04:05+00', '0001-01-01', '23:59:59.999999', 1e10, 12345678, 99999999.99, 0.00001, NULL, NULL, NULL, NULL, NULL, NULL, -0.0000012345, 123456789012345678901234567890),
('e', 'order', 'k', '{"infinity": 1}', true, 0, 0, 0, '1', 'true', '2', '00000000-0000-0000-0000-000000000000',
 '1', '1', 'x', 'infinity', '-infinity', 'infinity', '-infinity', 'infinity', '24:00', 'NaN', 'Infinity', 0, 1e20, NULL, NULL, NULL, NULL, NULL, NULL, 1234567890.5, 128),
('f', 'order', 'k', '{}', true, 0, 0, 0, '1', 'true', '2', '00000000-0000-0000-0000-000000000000',
 '1', '1', 'x', '12026-01-02 03:04:05', '0044-03-15 00:00:00 BC', '12026-01-02 03:04:05+00', '0044-03-15 00:00:00+00 BC', '12026-01-02', '12:00', 0.5, 0.5, 0, -0.00, NULL, NULL, NULL, NULL, NULL, NULL, -1, 0)

INSERT INTO defaults VALUES
('59a42efd-b015-44a9-9dde-cb36d9002425', 'invoice', '1', '{}', 'x', 'x', 1, 1, true, '59a42efd-b015-44a9-9dde-cb36d9002425', '2026-01-01 00:00+00', '2026-01-01', '2026-01-01', 2.5, 5, '2026-01-01', 'w', '2026-01-01', true, '{}', 'n', 9.99, 1, 1),
('59a42efd-b015-44a9-9dde-cb36d9002426', 'invoice', '2', NULL, NULL, NULL, NULL, 1, false, NULL, NULL, NULL, NULL, NULL, 6, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
