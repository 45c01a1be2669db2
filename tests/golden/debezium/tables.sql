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

CREATE EXTENSION citext;
CREATE EXTENSION hstore;
CREATE EXTENSION ltree;
CREATE TYPE mood AS ENUM ('happy', 'so, so', 'sad');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN email AS text;
CREATE DOMAIN work_email AS email;
CREATE DOMAIN code AS varchar(5);
CREATE DOMAIN cents AS numeric(8,2);
CREATE DOMAIN any_number AS numeric;
CREATE DOMAIN moment AS timestamp(3);
CREATE DOMAIN positive AS int DEFAULT 7;
CREATE DOMAIN required AS text NOT NULL;
CREATE DOMAIN content AS bytea;

-- The types that are none of the usual ones.
CREATE TABLE kinds (
    id            text PRIMARY KEY,
    aggregatetype text NOT NULL,
    aggregateid   text NOT NULL,
    payload       text,
    mood          mood NOT NULL,
    maybe         mood,
    email         email,
    work          work_email,
    code          code,
    amount        cents,
    anything      any_number,
    made          moment,
    positive      positive,
    required      required,
    address       inet,
    network       cidr,
    mac           macaddr,
    mac8          macaddr8,
    took          interval,
    took_days     interval day,
    cost          money,
    document      xml,
    flag          bit(1),
    bits          bit(10),
    some_bits     varbit(12),
    any_bits      varbit,
    at_time       timetz,
    at_time_3     timetz(3),
    number        oid,
    words         tsvector,
    spot          point,
    wholes        int4range,
    larges        int8range,
    numbers       numrange,
    times         tsrange,
    zones         tstzrange,
    days          daterange,
    letter        "char",
    ident         name,
    area          box,
    round         circle,
    straight      line,
    segment       lseg,
    way           path,
    shape         polygon,
    lsn           pg_lsn,
    query         tsquery,
    multi         int4multirange,
    found         jsonpath,
    of_class      regclass,
    couple        pair,
    xid           xid,
    any_interval  interval(2),
    content       content,
    bit_or_none   varbit(1)
);

-- Lists.
CREATE TABLE lists (
    id            text PRIMARY KEY,
    aggregatetype text NOT NULL,
    aggregateid   text NOT NULL,
    payload       text[],
    small         smallint[],
    whole         int[],
    required      int[] NOT NULL,
    large         bigint[],
    oids          oid[],
    fixed         char(3)[],
    short         varchar(5)[],
    price         numeric(10,2)[],
    any_price     numeric[],
    single        real[],
    double        double precision[],
    flag          boolean[],
    on_day        date[],
    token         uuid[],
    document      json[],
    binary_json   jsonb[],
    at_time       time[],
    at_time_3     time(3)[],
    at_time_zone  timetz[],
    at            timestamp[],
    at_3          timestamp(3)[],
    at_zone       timestamptz[],
    at_zone_3     timestamptz(3)[],
    content       bytea[],
    mood          mood[],
    letters       "char"[],
    texts         text[],
    address       inet[],
    network       cidr[],
    mac           macaddr[],
    days          daterange[],
    email         email[],
    took          interval[],
    cost          money[],
    ident         name[],
    flags         bit(3)[],
    documents     xml[],
    words         tsvector[],
    square        int[][]
);

-- Their defaults.
CREATE TABLE kind_defaults (
    id            text PRIMARY KEY,
    aggregatetype text NOT NULL,
    aggregateid   text NOT NULL,
    payload       text,
    mood          mood DEFAULT 'sad',
    email         email DEFAULT 'a@b',
    amount        cents DEFAULT 1.5,
    positive      positive,
    positive_3    positive DEFAULT 3,
    clock         time DEFAULT '03:04:05',
    clock_3       time(3) DEFAULT localtime,
    fixed         char(3) DEFAULT 'a',
    bits_made     bit(10) DEFAULT lpad('1', 10, '0')::bit(10),
    some_made     varbit(12) DEFAULT lpad('1', 10, '0')::varbit(12),
    any_made      numeric DEFAULT random(),
    code          code DEFAULT 'ab',
    address       inet DEFAULT '10.0.0.1',
    mac           macaddr DEFAULT '08:00:2b:01:02:03',
    took          interval DEFAULT '1 day 02:03:04.5',
    took_computed interval DEFAULT now() - now(),
    cost          money DEFAULT 12.34,
    cost_text     money DEFAULT '$1,234.50',
    flag          bit(1) DEFAULT B'1',
    bits          bit(10) DEFAULT B'1000000001',
    some_bits     varbit(12) DEFAULT '101',
    at_time       timetz DEFAULT '03:04:05.5+02',
    number        oid DEFAULT 12,
    spot          point DEFAULT '(1,2)',
    wholes        int4range DEFAULT '[1,5)',
    whole         int[] DEFAULT '{1,2}',
    short         text[] DEFAULT ARRAY['a', 'b'],
    mood_of       mood DEFAULT lower('SAD')::mood,
    document      xml DEFAULT '<a/>',
    content       bytea DEFAULT '\x00ff',
    moods         mood[] DEFAULT '{sad}',
    words         tsvector DEFAULT 'a b'
);

-- Types of extensions.
CREATE TABLE extensions (
    id            text PRIMARY KEY,
    aggregatetype text NOT NULL,
    aggregateid   citext NOT NULL,
    payload       hstore,
    folded        citext DEFAULT 'X',
    attributes    hstore DEFAULT 'a=>1',
    path          ltree DEFAULT 'a.b',
    foldeds       citext[],
    several       hstore[],
    paths         ltree[]
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

INSERT INTO kinds VALUES
('a', 'order', 'k', 'x', 'happy', 'so, so', 'a@b', 'c@d', 'abc', 12.50, 1.230, '2026-01-02 03:04:05.678', 5, 'r', '10.1.2.3/8', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
 '1 year 2 mons 3 days 04:05:06.789', '3 days', 1234.56, '<a b="c">x</a>', B'1', B'1000000001', B'101', B'1', '03:04:05.5+02', '03:04:05.678+00', 4294967295, 'a fat cat', '(1.5,-2)', '[1,5]', '(1,)', '[1.5,2.50)', '[2026-01-02 03:04:05,)', '[2026-01-02 03:04:05+02,2026-01-03 00:00:00+00)', '[2026-01-02,2026-01-05]', 'x', 'ident', '((0,0),(1,1))', '<(0,0),2>', '{1,-1,0}', '[(0,0),(1,1)]', '((0,0),(1,1),(2,0))', '((0,0),(1,1),(2,0))', '16/B374D848', 'fat & cat', '{[1,3)}', '$.a', 'kinds', '(1,x)', '5', '04:05:06.789', '\x00ff', B'1'),
('b', 'order', 'k', NULL, 'sad', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'r', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('c', 'order', 'k', 'x', 'so, so', 'sad', '', '', '', -0.01, 100, '1969-12-31 23:59:59.999', -1, '', '::1', '2001:db8::/32', 'ff:ff:ff:ff:ff:ff', 'ff:ff:ff:ff:ff:ff:ff:ff',
 '-1 year -2 mons +3 days -04:05:06.789', '-3 days', -1234.56, '', B'0', B'0000000000', B'', B'', '23:59:59.999999-12:30', '24:00:00+00', 0, '', '(0,1e100)', 'empty', '[1,1]', '(,)', 'empty', '(,)', '(,2026-01-05)', '', '', '((1,2),(3,4))', '<(1.5,0),0.5>', '{1,2,3}', '[(1,2),(3,4)]', '[(0,0),(1,1)]', '((0,0))', '0/0', '', '{}', '$', NULL, '(,)', '0', '-00:00:00.004', '\x', B'0'),
('d', 'order', 'k', 'x', 'sad', 'happy', '{"a": 1}', ' ', 'é', 99999.99, 0.00001, '2026-01-02 03:04:05', 2147483647, 'r', '192.168.0.0/24', '192.168.0.0/24', '00:00:00:00:00:00', '00:00:00:00:00:00:00:00',
 '00:00:00.000001', '0', 0, '<?xml version="1.0"?><a/>', B'1', B'0111111111', B'111111111111', B'1111000011110000', '00:00+14', '12:30:00.1+05:30', 2147483648, E'\'it\'\'s\':1A', '(-0,1)', '[,5)', '[-9223372036854775807,9223372036854775807)', '(1e-5,1e5]', '["2026-01-02 03:04:05.678901","2026-02-01 00:00:00"]', '[2026-01-02 03:04:05.5+00,infinity]', 'empty', 'é', 'é', '((0,0),(0,0))', '<(0,0),0>', '{0,1,-2.5}', '[(0,0),(0,0)]', '((0,0))', '((0,0),(0,1),(1,1),(1,0))', 'FFFFFFFF/FFFFFFFF', '!a', '{[1,3),[5,7)}', '$.a[*]', 'kinds', '(1,"a b")', '7', '178000000 years', 'x', B'1'),
('e', 'order', 'k', 'x', 'sad', 'happy', 'NaN', ' ', 'x', 0, 0, '2026-01-02 03:04:05.1', 0, 'r', '1.2.3.4', '1.2.3.4', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
 '1 mon', '1 day', -0.05, 'x', B'0', B'1111111111', B'1', B'10000000', '12:00:00.120', '12:00:00.12', 1, 'a:1A b:2,3B', '(NaN,Infinity)', '[1,2)', '[1,2)', '[1,2)', '[2026-01-01,2026-01-02)', '[2026-01-01,2026-01-02)', '[2026-01-01,2026-01-02)', '1', '1', '((0,0),(1,1))', '<(0,0),2>', '{1,-1,0}', '[(0,0),(1,1)]', '((0,0))', '((0,0))', '0/1', 'a', '{}', '$', 'kinds', '(1,x)', '5', '1 day 1 mon', 'x', NULL),
('no number', 'order', 'k', NULL, 'sad', NULL, NULL, NULL, NULL, 'NaN', NULL, NULL, NULL, 'r', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('no number either', 'order', 'k', NULL, 'sad', NULL, NULL, NULL, NULL, NULL, '-Infinity', NULL, NULL, 'r', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('lost bit', 'order', 'k', NULL, 'sad', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'r', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '')

INSERT INTO lists VALUES
('a', 'order', 'k', '{a,"b c"}', '{1,-2,NULL}', '{1,-2,NULL}', '{1}', '{9007199254740993,-1}', '{1,4294967295}', '{ab,c}', '{ab,c}', '{1.5,-2.25,NULL}', '{1.230,100,NULL}', '{1.1,NaN,1e10}', '{1.1,Infinity,1e100,NULL}', '{t,f,NULL}', '{2026-01-02,1960-02-29,NULL}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}', '{"{\"a\":  1}","null",NULL}', '{"{\"a\":  1}","null"}',
 '{03:04:05.5,23:59:59.999999,NULL}', '{03:04:05.5}', '{03:04:05.5+02,12:00+00,NULL}', '{2026-01-02 03:04:05.678901,1969-12-31 23:59:59.999999,NULL}', '{2026-01-02 03:04:05.678}', '{2026-01-02 03:04:05.678901+02,NULL}', '{2026-01-02 03:04:05.67+00}', '{"\\x00ff80","\\x",NULL}', '{happy,"so, so"}', '{a,NULL}', '{"a\"b","c\\\\d",NULL,é😀,"tab\tline\n"}', '{10.1.2.3/8,::1,NULL}', '{10.0.0.0/8}', '{08:00:2b:01:02:03}', '{"[2026-01-02,2026-01-05)",empty}', '{a@b,NULL}', '{1 day,02:03:04}', '{1.50}', '{a}', '{101,111}', '{<a/>}', '{a,"b c"}', NULL),
('b', 'order', 'k', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('c', 'order', 'k', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
('d', 'order', 'k', '{NULL,"NULL","","a\"b","c\\d","{x}","a,b"," x ",é}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL,""}', '{NULL,""}', '{0}', '{0}', '{-0,-1.5}', '{-0,12345678}', '{NULL}', '{0001-01-01}', '{NULL}', '{"[1, 2]"}', '{"[1, 2]"}', '{00:00}', '{00:00}', '{23:59:59.999999-12:30}', '{1600-01-01 00:00:00}', '{2026-01-02 03:04:05}', '{12026-01-02 03:04:05+02}', '{2026-01-02 03:04:05+00}', '{"\\x01"}', '{sad}', '{""}', '{""}', '{1.2.3.4}', '{1.2.3.4/32}', '{00:00:00:00:00:00}', '{"(,)"}', '{""}', '{0}', '{0}', '{""}', '{000}', '{""}', '{""}', NULL),
('e', 'order', 'k', '{x}', NULL, '[0:1]={1,2}', '{1}', NULL, NULL, NULL, NULL, '{12.5}', NULL, '{Infinity}', '{NaN}', '{t}', '{1500-01-01}', NULL, NULL, NULL, '{24:00}', NULL, '{24:00+00}', '{1700-01-01 00:00:00,2026-01-02 03:04:05}', NULL, '{infinity,1500-01-01 00:00:00+00}', NULL, NULL, '{happy}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('lost number', 'order', 'k', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, '{NaN}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('lost moment', 'order', 'k', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{0044-03-15 00:00:00 BC}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('lost item', 'order', 'k', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{happy,NULL}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('lost lists', 'order', 'k', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{{1,2},{3,4}}')

INSERT INTO kind_defaults (id, aggregatetype, aggregateid, payload, clock_3, any_made) VALUES ('a', 'order', 'k', 'x', '01:02:03.5', 0.25)

INSERT INTO kind_defaults VALUES
('b', 'order', 'k', 'x', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)

INSERT INTO extensions VALUES
('a', 'order', 'K', 'a=>1', 'FoLd', '"b" => "1", "a"=>NULL, "c d"=>"x\"y"', 'a.b.c', '{Ab,NULL}', '{"\"a\"=>\"1\", \"b\"=>NULL",NULL}', '{a.b,c}'),
('b', 'order', 'k', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('c', 'order', 'k', '', '', '', '', '{}', '{}', '{}'),
('d', 'order', 'k', '"x=>y"=>"a, b", "q\"s"=>"c\\d", n=>"NULL", e=>""', '"q"', 'bb=>2, aaa=>3, a=>1, z=>é, "long key"=>"", "k1"=>v1, k2=>v2, k3=>v3, k4=>v4, k5=>v5, k6=>v6, k7=>v7, k8=>v8, k9=>v9, k10=>v10, k11=>v11, "é😀"=>"😀"', 'Top', '{""}', '{""}', '{""}'),
('e', 'order', 'k', E'"tab\tkey"=>"line\n"', 'x', 'a=>"{\"x\": 1}", Aa=>1, BB=>2, "AaAa"=>3, "BBBB"=>4, "AaBB"=>5', 'a_b', '{x}', '{a=>1}', '{a}'),
('lost item', 'order', 'k', NULL, NULL, NULL, NULL, NULL, NULL, '{a,NULL}')
