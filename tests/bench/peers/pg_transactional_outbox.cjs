// Relays an outbox to Kafka with pg-transactional-outbox; the argument is a file of settings.

const { readFileSync } = require('node:fs');
const { setTimeout } = require('node:timers/promises');
const { Kafka } = require('kafkajs');
const { Pool } = require('pg');
const {
  createReplicationMutexConcurrencyController,
  createReplicationSemaphoreConcurrencyController,
  getDefaultLogger,
  initializeReplicationMessageListener,
} = require('pg-transactional-outbox');

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'));

// The whole message, so that a receiver can look for duplicates.
const record = (message) => ({ key: message.aggregateId, value: JSON.stringify(message) });

// What its example does: one message after the other, in a request of its own, with two seconds for each.
const documented = (producer) => ({
  publish: (message) => producer.send({ topic: settings.topic, messages: [record(message)] }),
  concurrencyStrategy: createReplicationMutexConcurrencyController(),
  messageProcessingTimeoutStrategy: () => 2_000,
});

const tuned = (producer, logger) => ({
  ...inOrder(batches(producer)),
  messageProcessingDbClientStrategy: onceVisible(logger),
});

// Several messages at a time, each with its transaction; whichever is ready first, they go out in the WAL's order.
// Not the library's controller for a mutex a segment: it confirms past a message that still waits for its segment.
const inOrder = (add) => {
  const semaphore = createReplicationSemaphoreConcurrencyController(settings.atATime);
  const turns = new WeakMap();
  let last = Promise.resolve();
  const acquire = async (message) => {
    const release = await semaphore.acquire(message);
    const before = last;
    let finish;
    last = new Promise((resolve) => (finish = resolve));
    turns.set(message, { before, finish });
    return () => {
      before.then(finish); // the later ones' turn comes also where this one was not published
      release();
    };
  };
  const publish = async (message) => {
    const { before, finish } = turns.get(message);
    await before;
    const sent = add(record(message));
    finish();
    await sent;
  };
  return { publish, concurrencyStrategy: { acquire, cancel: semaphore.cancel } };
};

// While a request is under way the next batch gathers; nothing waits for a batch to fill.
const batches = (producer) => {
  let gathering;
  let underway = Promise.resolve();
  const send = () => {
    const messages = gathering;
    gathering = undefined;
    return producer.send({ topic: settings.topic, messages });
  };
  return (message) => {
    if (!gathering) {
      gathering = [];
      underway = underway.then(send, send);
    }
    gathering.push(message);
    return underway;
  };
};

// The WAL tells of a row a moment before queries see it, and the library drops a message whose row it does not see.
const onceVisible = (logger) => {
  const pool = new Pool(settings.listener.dbHandlerConfig);
  pool.on('error', (error) => logger.error(error));
  const isVisible = async (id) => (await pool.query('SELECT FROM outbox WHERE id = $1', [id])).rowCount > 0;
  const getClient = async ({ id }) => {
    for (let attempt = 1; attempt < 100 && !(await isVisible(id)); attempt++) await setTimeout(1);
    return pool.connect();
  };
  return { getClient, shutdown: () => pool.end() };
};

const main = async () => {
  const logger = getDefaultLogger('outbox');
  const producer = new Kafka({ brokers: settings.brokers }).producer(settings.producer);
  await producer.connect();
  const { publish, ...strategies } = settings.atATime > 1 ? tuned(producer, logger) : documented(producer);
  const [shutdown] = initializeReplicationMessageListener(settings.listener, { handle: publish }, logger, strategies);
  const cleanup = () => Promise.allSettled([producer.disconnect(), shutdown()]);
  process.on('SIGINT', cleanup);
  process.on('SIGTERM', cleanup);
};

main();
