-- What the two services keep. The outbox is made by `walrelay init`.
CREATE TABLE orders (
    id       uuid PRIMARY KEY,
    customer text NOT NULL,
    total    numeric NOT NULL,
    state    text NOT NULL
);

CREATE TABLE invoices (
    order_id uuid PRIMARY KEY,
    customer text NOT NULL,
    amount   numeric NOT NULL,
    void     boolean NOT NULL DEFAULT false
);

CREATE TABLE accounts (
    customer text PRIMARY KEY,
    owes     numeric NOT NULL
);
